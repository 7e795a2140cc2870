"""What each screen shows, as plain values: a function each, that reads through operations and knows no request.

``NAME.view(project, asked)`` gives the values that ``templates/NAME.html`` needs. ``home.view(places, asked)`` is given
all that is served at once.
"""
