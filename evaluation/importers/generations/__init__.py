"""Public generations of language models: read from their collections, judged, and recorded.

A collection is somebody's repository. None of its sources enters this one: a record has the
verdict, the claim, the hash of the source and its address.
"""
