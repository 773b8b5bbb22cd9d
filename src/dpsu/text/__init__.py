"""Turn the texts of users into items: tokenizers and n-grams."""
