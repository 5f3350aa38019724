"""On the Prunability of Attention Heads in Multilingual BERT (2021)."""
