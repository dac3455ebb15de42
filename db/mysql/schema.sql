-- The ledger for MariaDB: what SQLite's schema.sql and the scripts after it make,
-- as one script. Each statement can be run again. Keys and names are bytes, so
-- that they compare as in SQLite; 9007199254740991 is STORE_NUMBER_MAX.

CREATE TABLE IF NOT EXISTS stockade (
    id      BIGINT PRIMARY KEY,
    version BIGINT NOT NULL,
    probes  BIGINT NOT NULL -- not used any more
) ENGINE = InnoDB;

INSERT IGNORE INTO stockade VALUES (1937006955, 0, 0);

CREATE TABLE IF NOT EXISTS products (
    id             BIGINT PRIMARY KEY
                   CHECK (id BETWEEN 1 AND 9007199254740991),
    name           VARBINARY(100) NOT NULL,
    price_cents    BIGINT NOT NULL
                   CHECK (price_cents BETWEEN 0 AND 9007199254740991),
    limit_per_user BIGINT NOT NULL
                   CHECK (limit_per_user BETWEEN 0 AND 9007199254740991),
    opens_ms       BIGINT NOT NULL
                   CHECK (opens_ms BETWEEN 0 AND 9007199254740991),
    ends_ms        BIGINT NOT NULL
                   CHECK (ends_ms BETWEEN 0 AND 9007199254740991),
    first_units    BIGINT NOT NULL
                   CHECK (first_units BETWEEN 0 AND 9007199254740991),
    created_ms     BIGINT NOT NULL,
    segments       BIGINT NOT NULL DEFAULT 1 CHECK (segments BETWEEN 1 AND 256),
    epoch          BIGINT NOT NULL DEFAULT 1 CHECK (epoch >= 1)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS segments (
    product_id BIGINT NOT NULL REFERENCES products (id),
    segment    BIGINT NOT NULL CHECK (segment >= 0),
    initial    BIGINT NOT NULL CHECK (initial BETWEEN 0 AND 9007199254740991),
    stock      BIGINT NOT NULL CHECK (stock BETWEEN 0 AND 9007199254740991),
    active     BIGINT NOT NULL DEFAULT 1 CHECK (active IN (0, 1)),
    PRIMARY KEY (product_id, segment)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS orders (
    number         BIGINT PRIMARY KEY AUTO_INCREMENT,
    secret         BIGINT NOT NULL,
    product_id     BIGINT NOT NULL,
    segment        BIGINT NOT NULL,
    user_id        BIGINT NOT NULL
                   CHECK (user_id BETWEEN 1 AND 9007199254740991),
    quantity       BIGINT NOT NULL
                   CHECK (quantity BETWEEN 1 AND 9007199254740991),
    price_cents    BIGINT NOT NULL
                   CHECK (price_cents BETWEEN 0 AND 9007199254740991),
    limit_per_user BIGINT NOT NULL CHECK (limit_per_user >= 0),
    fence          BIGINT NOT NULL CHECK (fence >= 0),
    state          BIGINT NOT NULL CHECK (state IN (0, 1)),
    created_ms     BIGINT NOT NULL,
    cancelled_ms   BIGINT NOT NULL CHECK ((cancelled_ms <> 0) = state),
    `key`          VARBINARY(128) CHECK (length(`key`) > 0),
    UNIQUE KEY orders_key (`key`),
    FOREIGN KEY (product_id, segment) REFERENCES segments (product_id, segment)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS purchases (
    product_id BIGINT NOT NULL REFERENCES products (id),
    user_id    BIGINT NOT NULL,
    units      BIGINT NOT NULL CHECK (units >= 0),
    PRIMARY KEY (product_id, user_id)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS restocks (
    number     BIGINT PRIMARY KEY AUTO_INCREMENT,
    product_id BIGINT NOT NULL REFERENCES products (id),
    quantity   BIGINT NOT NULL
               CHECK (quantity BETWEEN 1 AND 9007199254740991),
    created_ms BIGINT NOT NULL,
    `key`      VARBINARY(128) CHECK (length(`key`) > 0),
    UNIQUE KEY restocks_key (`key`)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS fences (
    name  VARBINARY(512) PRIMARY KEY,
    token BIGINT NOT NULL CHECK (token > 0),
    owner VARBINARY(512)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS transfers (
    number       BIGINT PRIMARY KEY AUTO_INCREMENT,
    product_id   BIGINT NOT NULL,
    from_segment BIGINT NOT NULL,
    to_segment   BIGINT NOT NULL CHECK (to_segment <> from_segment),
    units        BIGINT NOT NULL
                 CHECK (units BETWEEN 0 AND 9007199254740991),
    created_ms   BIGINT NOT NULL,
    FOREIGN KEY (product_id, from_segment)
        REFERENCES segments (product_id, segment),
    FOREIGN KEY (product_id, to_segment)
        REFERENCES segments (product_id, segment)
) ENGINE = InnoDB;
