-- Version 3: an order has one segment. What had been called a cell is a segment.

ALTER TABLE cells RENAME TO segments;

-- An order that took from several segments: what it took from another one than
-- its own is moved to its own, and was sold there. A cancelled one has given its
-- units back to where they came from: nothing moves.
CREATE TABLE moved AS
    SELECT product_id, parts.segment AS from_segment,
           orders.segment AS to_segment, units, created_ms
    FROM parts JOIN orders USING (number) WHERE state = 0;

UPDATE segments SET initial = initial
    - (SELECT IFNULL(SUM(units), 0) FROM moved
       WHERE moved.product_id = segments.product_id AND from_segment = segment)
    + (SELECT IFNULL(SUM(units), 0) FROM moved
       WHERE moved.product_id = segments.product_id AND to_segment = segment)
WHERE product_id IN (SELECT product_id FROM moved);

INSERT INTO transfers (product_id, from_segment, to_segment, units, created_ms)
    SELECT product_id, from_segment, to_segment, units, created_ms FROM moved;

DROP TABLE moved;
DROP TABLE parts;

-- No transfer is asked for twice any more.
DROP INDEX transfers_key;
ALTER TABLE transfers DROP COLUMN key;

-- Stock that cannot be bought. There should be none: then the index is empty, and
-- to look for it costs nothing.
CREATE INDEX segments_stranded ON segments (stock)
    WHERE active = 0 AND stock > 0;
