"""Released words for language models: tokenizers trained on them, and word lists."""
