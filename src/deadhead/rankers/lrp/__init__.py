"""Layer-wise relevance propagation."""
