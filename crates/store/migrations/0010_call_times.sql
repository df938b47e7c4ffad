-- Call records are searched by the time of their end, page by page.

CREATE INDEX call_record_ended ON call_record (ended_at);
