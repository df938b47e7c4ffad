SELECT pg_catalog.set_config('search_path', '', false);
CREATE TABLE public.account (
    id bigint NOT NULL,
    domain_id bigint NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    verifiers bytea NOT NULL,
    display_name text,
    disabled boolean DEFAULT false NOT NULL,
    max_contacts bigint,
    max_calls bigint,
    created_at bigint NOT NULL,
    max_rate bigint,
    deny text
);
ALTER TABLE public.account ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.account_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.alias (
    domain_id bigint NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    account_id bigint NOT NULL
);
CREATE TABLE public.binding (
    bucket smallint NOT NULL,
    aor text NOT NULL COLLATE pg_catalog."C",
    seq bigint NOT NULL,
    written_at bigint NOT NULL,
    record bytea NOT NULL,
    epoch bigint DEFAULT 0 NOT NULL
)
WITH (fillfactor='80');
CREATE SEQUENCE public.binding_seq
    START WITH 1
    INCREMENT BY 4096
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
CREATE TABLE public.bucket (
    bucket smallint NOT NULL,
    epoch bigint DEFAULT 0 NOT NULL,
    life bigint,
    shard integer,
    CONSTRAINT bucket_check CHECK (((life IS NULL) = (shard IS NULL)))
)
WITH (fillfactor='50');
CREATE TABLE public.call_record (
    id bigint NOT NULL,
    call_id text NOT NULL,
    from_uri text NOT NULL,
    to_uri text NOT NULL,
    started_at bigint NOT NULL,
    answered_at bigint,
    ended_at bigint NOT NULL,
    code integer NOT NULL,
    reason text NOT NULL,
    account text,
    callee text
);
ALTER TABLE public.call_record ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.call_record_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.domain (
    id bigint NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    created_at bigint NOT NULL
);
ALTER TABLE public.domain ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.domain_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.kept_message (
    id bigint NOT NULL,
    aor text NOT NULL COLLATE pg_catalog."C",
    from_uri text NOT NULL,
    content_type text NOT NULL,
    body bytea NOT NULL,
    sent_at bigint NOT NULL,
    bucket smallint NOT NULL,
    expires_at bigint
);
ALTER TABLE public.kept_message ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.kept_message_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.member (
    life bigint NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    started timestamp with time zone DEFAULT now() NOT NULL,
    fenced boolean DEFAULT false NOT NULL
);
CREATE TABLE public.probe (
    id integer NOT NULL,
    at bigint NOT NULL
);
CREATE TABLE public.rest (
    id bigint NOT NULL,
    kind smallint NOT NULL,
    sid text NOT NULL COLLATE pg_catalog."C",
    account text NOT NULL COLLATE pg_catalog."C",
    parent text COLLATE pg_catalog."C",
    name text COLLATE pg_catalog."C",
    status text COLLATE pg_catalog."C",
    from_uri text COLLATE pg_catalog."C",
    to_uri text COLLATE pg_catalog."C",
    direction text COLLATE pg_catalog."C",
    amount bigint,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    ended_at bigint,
    body text NOT NULL
);
ALTER TABLE public.rest ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.rest_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.route (
    id bigint NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    pattern_kind text NOT NULL,
    pattern text NOT NULL,
    targets text NOT NULL,
    open boolean NOT NULL,
    probe boolean NOT NULL,
    strip smallint NOT NULL,
    prefix text NOT NULL,
    policy text NOT NULL,
    created_at bigint NOT NULL
);
ALTER TABLE public.route ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.route_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.schema_version (
    id integer NOT NULL,
    version bigint NOT NULL,
    oldest bigint DEFAULT 2 NOT NULL
);
CREATE TABLE public.secret (
    name text NOT NULL,
    value bytea NOT NULL
);
CREATE TABLE public.xmpp_archive (
    owner text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    at bigint NOT NULL,
    bare text NOT NULL COLLATE pg_catalog."C",
    resource text COLLATE pg_catalog."C",
    stanza text NOT NULL
);
CREATE TABLE public.xmpp_invitation (
    hash bytea NOT NULL,
    domain text NOT NULL COLLATE pg_catalog."C",
    name text COLLATE pg_catalog."C",
    inviter text COLLATE pg_catalog."C",
    registers boolean NOT NULL,
    expires_at bigint NOT NULL
);
CREATE TABLE public.xmpp_item (
    owner text NOT NULL COLLATE pg_catalog."C",
    node text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    at bigint NOT NULL,
    seq bigint NOT NULL,
    item text NOT NULL
);
CREATE SEQUENCE public.xmpp_item_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
CREATE TABLE public.xmpp_node (
    owner text NOT NULL COLLATE pg_catalog."C",
    node text NOT NULL COLLATE pg_catalog."C",
    config text NOT NULL,
    at bigint NOT NULL
);
CREATE TABLE public.xmpp_offline (
    id bigint NOT NULL,
    owner text NOT NULL COLLATE pg_catalog."C",
    at bigint NOT NULL,
    stanza text NOT NULL
);
ALTER TABLE public.xmpp_offline ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.xmpp_offline_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.xmpp_room (
    room text NOT NULL COLLATE pg_catalog."C",
    domain text NOT NULL COLLATE pg_catalog."C",
    config text NOT NULL,
    creator text COLLATE pg_catalog."C"
);
CREATE TABLE public.xmpp_roster (
    owner text NOT NULL COLLATE pg_catalog."C",
    contact text NOT NULL COLLATE pg_catalog."C",
    item text NOT NULL
);
CREATE TABLE public.xmpp_token (
    owner text NOT NULL COLLATE pg_catalog."C",
    agent text NOT NULL COLLATE pg_catalog."C",
    id bytea NOT NULL,
    mechanism text NOT NULL,
    issued_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    count bigint DEFAULT 0 NOT NULL,
    used boolean DEFAULT false NOT NULL
);
CREATE TABLE public.xmpp_user (
    owner text NOT NULL COLLATE pg_catalog."C",
    roster_version bigint DEFAULT 0 NOT NULL,
    blocked text DEFAULT '[]'::text NOT NULL,
    last_at bigint,
    last_status text
);
INSERT INTO public.account OVERRIDING SYSTEM VALUE VALUES (1, 1, 'alice', '\x0110543e1aec5d3614f03141652d6ada51b20220d1659fff7a501be15962adc35514ca6a5868905695f2dd1093741f931e000a1f0320bb26296e6f753ae34f4465323f4e1505bf959f55a87ee9347d34355a1e88627a055500001000100303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303', 'The “alice”', true, 3, NULL, 7, 4, '["00*"]');
INSERT INTO public.account OVERRIDING SYSTEM VALUE VALUES (2, 3, 'bob', '\x01109ea0e7b974be5095939ab2e6795f015902204db4fd7337d4fddd26f4c0d25bd068ad1021cb92f574b0566a577ad56f003504032041d50a15ac9d3049a37fec5b62a16d568df9d0084d8ea5347219867b1b01e595055500001000100303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303', 'The “bob@example.net”', false, 3, NULL, 7, 4, '["00*"]');
INSERT INTO public.alias VALUES (1, 'boss', 1);
INSERT INTO public.binding VALUES (84, 'alice', 7, 70, '\x616c696365', 0);
INSERT INTO public.bucket (bucket) SELECT * FROM generate_series(0, 4095);
INSERT INTO public.call_record OVERRIDING SYSTEM VALUE VALUES (1, '1@x', 'sip:a@example.org', 'sip:b@example.org', 1000000, 2500000, 9000000, 200, 'BYE', 'a@example.org', NULL);
INSERT INTO public.domain OVERRIDING SYSTEM VALUE VALUES (1, 'example.org', 1);
INSERT INTO public.domain OVERRIDING SYSTEM VALUE VALUES (3, 'example.net', 2);
INSERT INTO public.kept_message OVERRIDING SYSTEM VALUE VALUES (1, 'alice', 'sip:x', 'text/plain', '\x00ff', 5, 84, NULL);
INSERT INTO public.kept_message OVERRIDING SYSTEM VALUE VALUES (2, 'alice', 'sip:x', 'text/plain', '\x00ff', 5, 84, NULL);
INSERT INTO public.rest OVERRIDING SYSTEM VALUE VALUES (1, 9, 'QU1', 'AC1', NULL, 'sales', NULL, NULL, NULL, NULL, NULL, 5000000, 6000000, NULL, '{"sid":"QU1","account":"AC1","created_at":5000000,"updated_at":6000000,"friendly_name":"sales","max_size":0}');
INSERT INTO public.route OVERRIDING SYSTEM VALUE VALUES (1, 'germany', 'prefix', '+49', '[{"uri":"sip:gw.example.net","weight":2,"priority":1}]', false, true, 1, '00', '{"trusted":true,"by_address":false,"certificates":[],"max_rate":null,"deny":[]}', 7);
INSERT INTO public.schema_version VALUES (1, 6, 2);
INSERT INTO public.secret VALUES ('tickets', '\x0909090909090909090909090909090909090909090909090909090909090909');
INSERT INTO public.xmpp_archive VALUES ('alice@example.org', '1', 9000000, 'bob@x', 'r', '<m/>');
INSERT INTO public.xmpp_invitation VALUES ('\x0707070707070707070707070707070707070707070707070707070707070707', 'example.org', 'carol', NULL, true, 100000000);
INSERT INTO public.xmpp_item VALUES ('alice@example.org', 'urn:n', 'i', 9000000, 1, '<item/>');
INSERT INTO public.xmpp_node VALUES ('alice@example.org', 'urn:n', '<x/>', 9000000);
INSERT INTO public.xmpp_offline OVERRIDING SYSTEM VALUE VALUES (1, 'alice@example.org', 9000000, '<m>ä</m>');
INSERT INTO public.xmpp_room VALUES ('room@conference.example.org', 'conference.example.org', '<x/>', 'alice@example.org');
INSERT INTO public.xmpp_roster VALUES ('alice@example.org', 'bob@x', '{"name":null,"subscription":"both","ask":false,"approved":false,"asked":null,"is_listed":false,"groups":[],"version":0}');
INSERT INTO public.xmpp_token VALUES ('alice@example.org', 'phone', '\x0100ff', 'HT-SHA-256-NONE', 9000000, 99000000, 0, false);
INSERT INTO public.xmpp_user VALUES ('alice@example.org', 1, '[]', 9000000, 'gone');
SELECT pg_catalog.setval('public.account_id_seq', 2, true);
SELECT pg_catalog.setval('public.binding_seq', 7, true);
SELECT pg_catalog.setval('public.call_record_id_seq', 1, true);
SELECT pg_catalog.setval('public.domain_id_seq', 3, true);
SELECT pg_catalog.setval('public.kept_message_id_seq', 3, true);
SELECT pg_catalog.setval('public.rest_id_seq', 1, true);
SELECT pg_catalog.setval('public.route_id_seq', 1, true);
SELECT pg_catalog.setval('public.xmpp_item_seq', 1, true);
SELECT pg_catalog.setval('public.xmpp_offline_id_seq', 1, true);
ALTER TABLE ONLY public.account
    ADD CONSTRAINT account_domain_id_name_key UNIQUE (domain_id, name);
ALTER TABLE ONLY public.account
    ADD CONSTRAINT account_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.alias
    ADD CONSTRAINT alias_pkey PRIMARY KEY (domain_id, name);
ALTER TABLE ONLY public.binding
    ADD CONSTRAINT binding_pkey PRIMARY KEY (bucket, aor);
ALTER TABLE ONLY public.bucket
    ADD CONSTRAINT bucket_pkey PRIMARY KEY (bucket);
ALTER TABLE ONLY public.call_record
    ADD CONSTRAINT call_record_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.domain
    ADD CONSTRAINT domain_name_key UNIQUE (name);
ALTER TABLE ONLY public.domain
    ADD CONSTRAINT domain_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.kept_message
    ADD CONSTRAINT kept_message_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.member
    ADD CONSTRAINT member_pkey PRIMARY KEY (life);
ALTER TABLE ONLY public.probe
    ADD CONSTRAINT probe_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.rest
    ADD CONSTRAINT rest_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.rest
    ADD CONSTRAINT rest_sid_key UNIQUE (sid);
ALTER TABLE ONLY public.route
    ADD CONSTRAINT route_name_key UNIQUE (name);
ALTER TABLE ONLY public.route
    ADD CONSTRAINT route_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.schema_version
    ADD CONSTRAINT schema_version_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.secret
    ADD CONSTRAINT secret_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.xmpp_archive
    ADD CONSTRAINT xmpp_archive_pkey PRIMARY KEY (owner, id);
ALTER TABLE ONLY public.xmpp_invitation
    ADD CONSTRAINT xmpp_invitation_pkey PRIMARY KEY (hash);
ALTER TABLE ONLY public.xmpp_item
    ADD CONSTRAINT xmpp_item_pkey PRIMARY KEY (owner, node, id);
ALTER TABLE ONLY public.xmpp_node
    ADD CONSTRAINT xmpp_node_pkey PRIMARY KEY (owner, node);
ALTER TABLE ONLY public.xmpp_offline
    ADD CONSTRAINT xmpp_offline_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.xmpp_room
    ADD CONSTRAINT xmpp_room_pkey PRIMARY KEY (room);
ALTER TABLE ONLY public.xmpp_roster
    ADD CONSTRAINT xmpp_roster_pkey PRIMARY KEY (owner, contact);
ALTER TABLE ONLY public.xmpp_token
    ADD CONSTRAINT xmpp_token_pkey PRIMARY KEY (owner, agent, id);
ALTER TABLE ONLY public.xmpp_user
    ADD CONSTRAINT xmpp_user_pkey PRIMARY KEY (owner);
CREATE INDEX alias_account ON public.alias USING btree (account_id);
CREATE INDEX call_record_account ON public.call_record USING btree (account, ended_at, id) WHERE (account IS NOT NULL);
CREATE INDEX call_record_callee ON public.call_record USING btree (callee, ended_at, id) WHERE (callee IS NOT NULL);
CREATE INDEX call_record_ended ON public.call_record USING btree (ended_at, id);
CREATE INDEX kept_message_aor ON public.kept_message USING btree (aor, id);
CREATE INDEX kept_message_bucket ON public.kept_message USING btree (bucket, aor);
CREATE INDEX rest_account ON public.rest USING btree (account, kind, created_at);
CREATE UNIQUE INDEX rest_client ON public.rest USING btree (name) WHERE (kind = 3);
CREATE INDEX rest_mailbox ON public.rest USING btree (to_uri, kind, created_at, id) WHERE ((kind = 6) AND (to_uri IS NOT NULL));
CREATE UNIQUE INDEX rest_name ON public.rest USING btree (kind, name) WHERE (kind = ANY (ARRAY[0, 2]));
CREATE INDEX rest_named ON public.rest USING btree (name, kind) WHERE (name IS NOT NULL);
CREATE UNIQUE INDEX rest_own_name ON public.rest USING btree (account, kind, name) WHERE (kind = ANY (ARRAY[9, 10]));
CREATE INDEX rest_parent ON public.rest USING btree (parent, kind) WHERE (parent IS NOT NULL);
CREATE INDEX rest_time ON public.rest USING btree (kind, created_at);
CREATE INDEX xmpp_archive_at ON public.xmpp_archive USING btree (at);
CREATE INDEX xmpp_archive_with ON public.xmpp_archive USING btree (owner, bare, id);
CREATE INDEX xmpp_invitation_age ON public.xmpp_invitation USING btree (expires_at);
CREATE INDEX xmpp_invitation_inviter ON public.xmpp_invitation USING btree (inviter, expires_at) WHERE (inviter IS NOT NULL);
CREATE INDEX xmpp_item_order ON public.xmpp_item USING btree (owner, node, seq);
CREATE INDEX xmpp_node_shared ON public.xmpp_node USING btree (owner, node) WHERE ((strpos(config, '<affiliation '::text) > 0) OR (strpos(config, '<subscription '::text) > 0));
CREATE INDEX xmpp_offline_owner ON public.xmpp_offline USING btree (owner, id);
CREATE INDEX xmpp_room_creator ON public.xmpp_room USING btree (creator) WHERE (creator IS NOT NULL);
CREATE INDEX xmpp_room_domain ON public.xmpp_room USING btree (domain, room);
CREATE INDEX xmpp_token_age ON public.xmpp_token USING btree (expires_at);
ALTER TABLE ONLY public.account
    ADD CONSTRAINT account_domain_id_fkey FOREIGN KEY (domain_id) REFERENCES public.domain(id);
ALTER TABLE ONLY public.alias
    ADD CONSTRAINT alias_account_id_fkey FOREIGN KEY (account_id) REFERENCES public.account(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.alias
    ADD CONSTRAINT alias_domain_id_fkey FOREIGN KEY (domain_id) REFERENCES public.domain(id);
