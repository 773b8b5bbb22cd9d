"""Tokenizers and word lists made from what was released; nothing in here reads other data."""
