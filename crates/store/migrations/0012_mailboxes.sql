-- The voicemail of one account (recordings, kind 6) is found page by page, the newest first.

CREATE INDEX rest_mailbox ON rest (to_uri, kind, created_at) WHERE kind = 6 AND to_uri IS NOT NULL;
