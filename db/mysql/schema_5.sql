-- Version 5: SQLite's schema_5.sql says why.

ALTER TABLE products
    ADD COLUMN IF NOT EXISTS pay_within_s BIGINT NOT NULL DEFAULT 0
    CHECK (pay_within_s BETWEEN 0 AND 31536000);

ALTER TABLE orders
    ADD COLUMN IF NOT EXISTS pay_until_ms BIGINT NOT NULL DEFAULT 0;

CREATE TABLE IF NOT EXISTS holds (
    number       BIGINT PRIMARY KEY,
    pay_until_ms BIGINT NOT NULL CHECK (pay_until_ms > 0),
    quantity     BIGINT NOT NULL CHECK (quantity > 0),
    KEY holds_pay_until (pay_until_ms)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS payments (
    reference  VARBINARY(64) PRIMARY KEY CHECK (length(reference) > 0),
    number     BIGINT NOT NULL,
    accepted   BIGINT CHECK (accepted = 1),
    created_ms BIGINT NOT NULL,
    UNIQUE KEY payments_number (number, accepted)
) ENGINE = InnoDB;
