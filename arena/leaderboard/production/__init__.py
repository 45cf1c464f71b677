"""Architectures of live models: their best kernels, alone and measured together."""
