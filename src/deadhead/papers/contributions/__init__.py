"""Contributions of Transformer Attention Heads in Multi- and Cross-lingual Tasks (2021)."""
