-- The ledger, version 1; schema_2.sql goes on from here. Every rule that one row
-- can hold is a constraint here, so that a bug in our own code is an error and
-- not a wrong number. 9007199254740991 is STORE_NUMBER_MAX.

CREATE TABLE products (
    id             INTEGER PRIMARY KEY
                   CHECK (id BETWEEN 1 AND 9007199254740991),
    name           TEXT NOT NULL,
    price_cents    INTEGER NOT NULL
                   CHECK (price_cents BETWEEN 0 AND 9007199254740991),
    limit_per_user INTEGER NOT NULL
                   CHECK (limit_per_user BETWEEN 0 AND 9007199254740991),
    opens_ms       INTEGER NOT NULL
                   CHECK (opens_ms BETWEEN 0 AND 9007199254740991),
    ends_ms        INTEGER NOT NULL
                   CHECK (ends_ms BETWEEN 0 AND 9007199254740991),
    -- What it began with. With the restocks this gives what the cells must
    -- have: a second account of the units, kept apart from the first.
    first_units    INTEGER NOT NULL
                   CHECK (first_units BETWEEN 0 AND 9007199254740991),
    created_ms     INTEGER NOT NULL
) STRICT;

-- The stock, one row per product and segment.
CREATE TABLE cells (
    product_id INTEGER NOT NULL REFERENCES products (id),
    segment    INTEGER NOT NULL CHECK (segment >= 0),
    initial    INTEGER NOT NULL CHECK (initial BETWEEN 0 AND 9007199254740991),
    stock      INTEGER NOT NULL CHECK (stock BETWEEN 0 AND 9007199254740991),
    PRIMARY KEY (product_id, segment)
) STRICT, WITHOUT ROWID;

-- Rows are never deleted, so that max(number) + 1 is never used twice and the
-- number rises in commit order. The order remembers the cell it drew from, for
-- a cancel, and the limit it was held against, for the audit: limits change.
CREATE TABLE orders (
    number         INTEGER PRIMARY KEY,
    secret         INTEGER NOT NULL,
    product_id     INTEGER NOT NULL,
    segment        INTEGER NOT NULL,
    user_id        INTEGER NOT NULL
                   CHECK (user_id BETWEEN 1 AND 9007199254740991),
    quantity       INTEGER NOT NULL
                   CHECK (quantity BETWEEN 1 AND 9007199254740991),
    price_cents    INTEGER NOT NULL
                   CHECK (price_cents BETWEEN 0 AND 9007199254740991),
    limit_per_user INTEGER NOT NULL CHECK (limit_per_user >= 0),
    fence          INTEGER NOT NULL CHECK (fence >= 0),
    state          INTEGER NOT NULL CHECK (state IN (0, 1)),
    created_ms     INTEGER NOT NULL,
    cancelled_ms   INTEGER NOT NULL CHECK ((cancelled_ms <> 0) = state),
    key            TEXT CHECK (length(key) > 0),
    FOREIGN KEY (product_id, segment) REFERENCES cells (product_id, segment)
) STRICT;

-- Partial: an order without a key does not pay for a random index.
CREATE UNIQUE INDEX orders_key ON orders (key) WHERE key IS NOT NULL;

-- Units per user, kept while a product has a limit. One row per pair is what
-- makes two clicks at once meet.
CREATE TABLE purchases (
    product_id INTEGER NOT NULL REFERENCES products (id),
    user_id    INTEGER NOT NULL,
    units      INTEGER NOT NULL CHECK (units >= 0),
    PRIMARY KEY (product_id, user_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE restocks (
    number     INTEGER PRIMARY KEY,
    product_id INTEGER NOT NULL REFERENCES products (id),
    quantity   INTEGER NOT NULL
               CHECK (quantity BETWEEN 1 AND 9007199254740991),
    created_ms INTEGER NOT NULL,
    key        TEXT CHECK (length(key) > 0)
) STRICT;

CREATE UNIQUE INDEX restocks_key ON restocks (key) WHERE key IS NOT NULL;

-- The highest token announced for each lock, and by whom.
CREATE TABLE fences (
    name  TEXT PRIMARY KEY,
    token INTEGER NOT NULL CHECK (token > 0),
    owner TEXT
) STRICT, WITHOUT ROWID;
