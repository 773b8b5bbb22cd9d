"""How much would be released: forecasts from public numbers, comparisons on data of one's own."""
