-- Who made a room: an account of ours or a foreign domain. NULL: it counts as nobody's.
ALTER TABLE xmpp_room ADD COLUMN creator TEXT;
CREATE INDEX xmpp_room_creator ON xmpp_room (creator) WHERE creator IS NOT NULL;

-- Nodes in which others than the owner are something: few, and looked through when an account is removed.
CREATE INDEX xmpp_node_shared ON xmpp_node (owner, node)
    WHERE instr(config, '<affiliation ') > 0 OR instr(config, '<subscription ') > 0;
