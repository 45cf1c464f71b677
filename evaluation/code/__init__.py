"""Code of candidates and baselines: languages, compilers and the cache of builds."""
