-- Fills a database that a server has made with old orders, so that a bench is not
-- only of empty tables:
--   sqlite3 -cmd '.parameter set :orders 1000000' stockade.db <preload.sql
-- They are of product 2, which has a limit: random users and random keys fill the
-- indexes as a long sale does, not in ascending order. All is consistent: the
-- audit has to find the ledger balanced.
.bail on
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -1500000;

BEGIN;

WITH RECURSIVE counter (number) AS (
    SELECT 1 UNION ALL SELECT number + 1 FROM counter WHERE number < :orders
)
INSERT INTO orders (number, secret, product_id, segment, user_id, quantity,
                    price_cents, limit_per_user, fence, state, created_ms,
                    cancelled_ms, key)
-- 29 random bits above the number itself: random, yet no user comes twice.
SELECT number, random(), 2, 0, ((random() & 0x1fffffff) << 24) | number, 1,
       100, 1, 0, 0, 1700000000000 + number, 0, lower(hex(randomblob(8)))
FROM counter;

INSERT INTO purchases (product_id, user_id, units, bucket_of_64)
SELECT product_id, user_id, quantity, number >> 6 FROM orders;

UPDATE segments SET stock = stock - :orders WHERE product_id = 2;

COMMIT;
