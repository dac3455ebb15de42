-- Version 5: orders that hold their units until they are paid. ledger/holds.c has
-- the rules. No row here refers to its order by a foreign key: SQLite would look into
-- these tables with each row of an order, also where there is nothing to pay.

ALTER TABLE products ADD COLUMN pay_within_s INTEGER NOT NULL DEFAULT 0
    CHECK (pay_within_s BETWEEN 0 AND 31536000);

-- 0: there is nothing to pay. Without a CHECK, for which the whole table would be
-- read now.
ALTER TABLE orders ADD COLUMN pay_until_ms INTEGER NOT NULL DEFAULT 0;

-- The orders that wait for their payment, and no others: to find what has run out
-- takes as long as there is of that.
CREATE TABLE holds (
    number       INTEGER PRIMARY KEY,
    pay_until_ms INTEGER NOT NULL CHECK (pay_until_ms > 0),
    quantity     INTEGER NOT NULL CHECK (quantity > 0)
) STRICT;

CREATE INDEX holds_pay_until ON holds (pay_until_ms);

-- One that came too late is on record with accepted NULL. An order has one accepted
-- payment at most, and any number of late ones.
CREATE TABLE payments (
    reference  TEXT PRIMARY KEY CHECK (length(reference) BETWEEN 1 AND 64),
    number     INTEGER NOT NULL,
    accepted   INTEGER CHECK (accepted = 1),
    created_ms INTEGER NOT NULL,
    UNIQUE (number, accepted)
) STRICT, WITHOUT ROWID;
