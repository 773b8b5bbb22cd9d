"""Tokenizers and word lists made of what was released; nothing in here reads private data."""
