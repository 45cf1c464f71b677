"""Statistics of the analysis page: pure functions of columns, by scipy and statsmodels.

Both libraries take a second to import, so the functions import them when they first run, which is
in a process apart from the web server's: see `background`.
"""
