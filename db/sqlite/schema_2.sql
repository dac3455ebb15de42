-- Version 2: a product's stock may be split over several cells.

-- How many cells a product should have, and a number that rises whenever its
-- units are dealt out anew: who remembers what was where has to look again.
ALTER TABLE products ADD COLUMN segments INTEGER NOT NULL DEFAULT 1
    CHECK (segments BETWEEN 1 AND 256);
ALTER TABLE products ADD COLUMN epoch INTEGER NOT NULL DEFAULT 1
    CHECK (epoch >= 1);

-- A retired cell has no stock and gets none. Its row stays: orders point at it,
-- and what they took stands on its account.
ALTER TABLE cells ADD COLUMN active INTEGER NOT NULL DEFAULT 1
    CHECK (active IN (0, 1));

-- What an order took from other cells than its own; most orders have none. Its
-- own cell gave the rest of the quantity, so that the sum cannot be wrong.
CREATE TABLE parts (
    number  INTEGER NOT NULL REFERENCES orders (number),
    segment INTEGER NOT NULL CHECK (segment >= 0),
    units   INTEGER NOT NULL CHECK (units BETWEEN 1 AND 9007199254740991),
    PRIMARY KEY (number, segment)
) STRICT, WITHOUT ROWID;

-- Every move of units between cells. New units enter at cell 0, so with the
-- first units and the restocks this explains what each cell has on account.
CREATE TABLE transfers (
    number       INTEGER PRIMARY KEY,
    product_id   INTEGER NOT NULL,
    from_segment INTEGER NOT NULL,
    to_segment   INTEGER NOT NULL CHECK (to_segment <> from_segment),
    units        INTEGER NOT NULL
                 CHECK (units BETWEEN 0 AND 9007199254740991),
    created_ms   INTEGER NOT NULL,
    key          TEXT CHECK (length(key) > 0),
    FOREIGN KEY (product_id, from_segment)
        REFERENCES cells (product_id, segment),
    FOREIGN KEY (product_id, to_segment)
        REFERENCES cells (product_id, segment)
) STRICT;

CREATE UNIQUE INDEX transfers_key ON transfers (key) WHERE key IS NOT NULL;
