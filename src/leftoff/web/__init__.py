"""The page of `leftoff serve`: runs in a browser, live, and an HTTP API for programs.

``page_server`` puts the routes behind ``guard``. ``screens`` renders pages from values that it, ``run_screens`` and
``diagrams`` compute. ``page_posts`` and ``page_api`` call the actions of ``operations.page_actions``.
"""
