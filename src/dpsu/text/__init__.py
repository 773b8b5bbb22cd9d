"""From the texts of users to their items: tokenizers, n-grams, and what is made of a vocabulary."""
