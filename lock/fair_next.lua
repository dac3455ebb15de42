-- Before release.lua: only the head of the queue is woken, on a channel of its
-- own. ARGV[5] is what the names of these channels begin with.

ARGV[5] = ARGV[5] .. (head() or '')

