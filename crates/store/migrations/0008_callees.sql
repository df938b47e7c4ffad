-- Call records know who was called, and the record can be tried.

-- `user@domain` of the account that was called; NULL: none of ours.
ALTER TABLE call_record ADD COLUMN callee TEXT;
-- One row, written to see that rows can be written.
CREATE TABLE probe (
  id INTEGER PRIMARY KEY,
  at INTEGER NOT NULL
) STRICT;
