"""The page of `leftoff serve`: runs in a browser, live, and an HTTP API for programs.

``app`` puts the routes behind ``guard``. ``screens`` renders pages from the values that ``overview_screens``,
``run_screens`` and ``diagrams`` compute. ``page_posts`` and ``page_api`` call the actions of ``operations.pages``.
"""
