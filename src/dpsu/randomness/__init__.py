"""Keys, and the coins and the noise that are functions of them."""
