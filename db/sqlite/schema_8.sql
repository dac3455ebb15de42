-- Version 8: what is random stands in buckets of 2^6 orders, by their numbers, so that
-- a batch changes a page or two of it. ledger/filter.h says how it is found again.
-- Version 6 had buckets of 2^14, version 7 of 2^9.
--
-- The old is dropped when all that is new is there, and its pages are not overwritten:
-- so there is little that would have to be undone, which is in memory.

-- Units of a user, all that he has by then. What counts is his newest row, in the bucket
-- of his last order. An instance of before names other buckets, or none, and must fail: it
-- would count in the wrong one.
CREATE TABLE bought (
    bucket_of_64 INTEGER NOT NULL,
    product_id   INTEGER NOT NULL REFERENCES products (id),
    user_id      INTEGER NOT NULL,
    units        INTEGER NOT NULL CHECK (units >= 0),
    PRIMARY KEY (bucket_of_64, product_id, user_id)
) STRICT, WITHOUT ROWID;

INSERT INTO bought (bucket_of_64, product_id, user_id, units)
    SELECT MAX(number) >> 6, product_id, user_id,
        SUM(CASE state WHEN 0 THEN quantity ELSE 0 END) FROM orders
    WHERE product_id IN
        (SELECT id FROM products WHERE limit_per_user > 0 AND counted = 1)
    GROUP BY product_id, user_id;

-- Unique in a bucket. That no other one has the key is looked at in the transaction
-- that writes, and there is one writer.
CREATE UNIQUE INDEX orders_key_of_64 ON orders (number >> 6, key)
    WHERE key IS NOT NULL;

PRAGMA secure_delete = OFF; -- until the connection is closed
DROP INDEX IF EXISTS orders_key;
DROP INDEX IF EXISTS orders_bucket_key;
DROP INDEX IF EXISTS orders_key_by_bucket;
DROP TABLE purchases;
ALTER TABLE bought RENAME TO purchases;
