"""The model gateway: an agent's only way to a model, and the only process that holds its key.

Each run has a gateway process of its own. It answers on the loopback network of the agent's
sandbox, checks the run's token, and passes requests to one provider with the real key. It reports
each model call, with tokens and cost, to the worker.
"""
