#!/bin/sh
# A recogniser for tests: one word after half a second of sound, the rest when all was said. What it was told of the
# language and the hints is part of the text.
head -c 8000 >/dev/null
echo '{"text": "one"}'
bytes=$(wc -c)
[ "$bytes" -gt 4000 ] && echo "{\"text\": \"one two $1 $2\", \"final\": true, \"confidence\": 0.9}"
