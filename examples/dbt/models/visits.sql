-- Made up: 2,000 people who buy what everybody buys, and a thing of their own.
select person, product
from range(2000) as people(person),
    unnest(['bread', 'milk', 'a gift for person ' || person]) as bought(product)
