-- Version 4: rows on which two writers meet; ledger.h says which they are.

-- Rises in all segments of a product when its terms change: price, limit, window. A
-- sale is decided under one number, and takes its units under the same.
ALTER TABLE segments ADD COLUMN terms INTEGER NOT NULL DEFAULT 0;

-- On a cluster it rises with each transaction under the token announced last.
ALTER TABLE fences ADD COLUMN writes INTEGER NOT NULL DEFAULT 0;

-- Whether purchases has what was ordered before the product had its limit: the
-- next sale sees to that.
ALTER TABLE products ADD COLUMN counted INTEGER NOT NULL DEFAULT 1;
