"""Parts of the agent `model_loop`: conversations, samples and tools."""
