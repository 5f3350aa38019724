"""Write a model as a GGUF file, and compare such a file with a model.

decoder     the model as plain layers; refuses what llama.cpp cannot run
plan        the architecture, metadata and tensors of the file
tokenizer   the tokenizer as metadata
file        write the file, read it, and say how it differs from a model
runtime     what llama.cpp answers with the file, in the process of `worker`
export      all of it for a saved model
"""
