-- The nodes of a farm share the database. Each process of a node has a number of its own, its life. A life that is fenced, or that has
-- no row, writes nothing: each transaction of a writer locks the row of its life first.
CREATE TABLE member (
  life bigint PRIMARY KEY,
  name text COLLATE "C" NOT NULL,
  started timestamptz NOT NULL DEFAULT now(),
  fenced boolean NOT NULL DEFAULT false
);

-- The holder of each bucket of addresses; NULL: it was given back, or had none yet. An epoch never gets smaller.
CREATE TABLE bucket (
  bucket smallint PRIMARY KEY,
  epoch bigint NOT NULL DEFAULT 0,
  life bigint,
  shard integer,
  CHECK ((life IS NULL) = (shard IS NULL))
) WITH (fillfactor = 50);
INSERT INTO bucket (bucket) SELECT * FROM generate_series(0, 4095);

-- The epoch of the last write; 0: by a node that is alone.
ALTER TABLE binding ADD COLUMN epoch bigint NOT NULL DEFAULT 0;
-- A writer takes so many numbers at once (`limits::BINDING_NUMBERS`).
ALTER SEQUENCE binding_seq INCREMENT BY 4096;

-- Filled in by the program, which knows the bucket of an address.
ALTER TABLE kept_message ADD COLUMN bucket smallint;

-- The oldest version whose programs may use this schema.
ALTER TABLE schema_version ADD COLUMN oldest bigint NOT NULL DEFAULT 2;
