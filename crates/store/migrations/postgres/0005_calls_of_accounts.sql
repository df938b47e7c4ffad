-- The calls of one account are found by the times of their ends, page by page.

CREATE INDEX call_record_account ON call_record (account, ended_at, id) WHERE account IS NOT NULL;
CREATE INDEX call_record_callee ON call_record (callee, ended_at, id) WHERE callee IS NOT NULL;
