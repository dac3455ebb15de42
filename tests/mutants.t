# Goal of this test: the tool that judges the others (mutants/run) plants a bug where its
# text stands, whatever lies between the words; tells of a text that is not there, or
# not once; and what it plants is switched on by its number, and tells that it was
# reached.
use strict;
use warnings;
use File::Copy qw(copy);
use File::Path qw(make_path);
use File::Temp ();
use FindBin;
use lib "$FindBin::Bin/mutants";
use Plant;
use Test::More;

my $folder = File::Temp->newdir('stockade-mutants-XXXXXX', TMPDIR => 1);

sub bugs_of {
    my ($records) = @_;
    Plant::spew("$folder/area.list", $records);
    return Plant::read_lists("$folder/area.list");
}

# One bug, and the text of one source. What becomes of that, or how many places it has.
sub planted {
    my ($find, $with, $source) = @_;
    my @bugs  = bugs_of("one\n    breaks: it\n    find: $find\n    with: $with\n");
    my %texts = ('a.c' => $source);
    my %stale = Plant::plant(\@bugs, \%texts);
    return $stale{1} // $texts{'a.c'} =~ s/^#include <mutant.h>\n//r;
}

# ---- the records ------------------------------------------------------------

my @bugs = bugs_of("# what\none\n  breaks: a\n    b\n  find: x `y`\n\n    z\n  with:\n\ntwo\n  breaks: c\n  find: `f();`\n  with: g();\n");
is_deeply [map { "$_->{area} $_->{number} $_->{name}" } @bugs], ['area 1 one', 'area 2 two'], 'names, numbers and the list';
is $bugs[0]{find}, "x `y`\nz", 'a text of several lines';
is $bugs[0]{with}, '', 'nothing in its place';
for my $wrong ("one\n  breaks: a\n  find: `x`\n", "one\n  breaks: a\n  find: x\n  with: y\n", "one\none\n", "o n e\n") {
    is eval { bugs_of($wrong); 1 }, undef, 'a record that makes no sense: ' . $wrong =~ s/\n/|/gr;
}

# ---- the text ---------------------------------------------------------------

my $on = 'mutant_on(1)';
is planted('if (`a < b`)', 'a <= b', 'if (a < b) c();'), "if (($on ? (a <= b) : (a < b))) c();", 'an expression';
is planted('if (`a < b`)', 'a <= b', "if (a\n    <b /* why */ )"), "if (($on ? (a <= b) : (a\n    <b)) /* why */ )",
    'blanks, line ends and comments do not matter';
is planted('`f(a);`', '', 'if (x) f(a); else g();'), "if (x) { if ($on) {  } else { f(a); } } else g();", 'a call dropped';
is planted('`f(a);` h();', 'g();', 'f(a); g(); f(a); h();'), "f(a); g(); { if ($on) { g(); } else { f(a); } } h();",
    'what stands beside tells which';
is planted('`a->b`', 'c', 'a->bb + aa->b + a -> b'), "a->bb + aa->b + ($on ? (c) : (a -> b))", 'whole words';
is planted('"a b" `c`', 'd', '"a  b" c'), 0, 'not within a text in quotes';
is planted('`a`', 'b', 'c'), 0, 'stale: it is not there';
is planted('`a`', 'b', 'a + a'), 2, 'stale: it is there twice';
my %texts = ('a.c' => 'a + b', 'b.c' => 'c');
my $three = join '', map { "n$_\n  breaks: it\n  find: `$_`\n  with: 0\n" } qw(b a c);
is_deeply { Plant::plant([bugs_of($three)], \%texts) }, {}, 'three in two files';
like $texts{'a.c'}, qr/\(mutant_on\(2\) \? \(0\) : \(a\)\) \+ \(mutant_on\(1\) /, 'each with its number';
%texts = ('a.c' => 'f(a);');
is eval { Plant::plant([bugs_of("x\n  breaks: it\n  find: `f(a);`\n  with:\ny\n  breaks: it\n  find: `a`\n  with: b\n")], \%texts); 1 },
    undef, 'one within another is refused';

# ---- the whole, in a tree of its own ------------------------------------------

# What is planted compiles without a warning, is switched on by its number, and tells that
# it was reached.
my $tree = "$folder/tree";
make_path("$tree/server", "$tree/tests/mutants");
copy("$FindBin::Bin/mutants/$_", "$tree/tests/mutants/$_") for qw(Plant.pm mutant.h run);
my %files = (
    'Makefile'   => "all: build/stockade\ntest-binaries full-binaries:\nbuild/stockade: server/a.c\n\tmkdir -p build\n\t\$(CC) -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror \$(CPPFLAGS) -o \$@ \$<\n",
    '.gitignore' => "/build/\n",
    'server/a.c' => "int main(int c, char *v[])\n{\n    int n = v[c] ? 1 : c;\n    if (n > 9)\n        n = 9;\n    if (n == 1)\n        n = 1 + c;\n    return n;\n}\n",
    'tests/run'  => qq{#!/bin/sh\nif [ "\$1" = --list ]; then echo tests/a.t; else exec perl "\$2"; fi\n},
    'tests/a.t'  => qq{print "1..1\\n", system(\$ENV{STOCKADE_BIN}) == 512 ? '' : 'not ', "ok 1\\n";\n},
    'tests/mutants/b.list' => <<'LIST',
found
    breaks: the sum
    find: n = `1 + c`;
    with: c
missed
    breaks: what no test looks at
    find: `v[c] ? 1 : c`
    with: c
far
    breaks: what no test calls
    find: `n = 9;`
    with:
gone
    breaks: what is not there any more
    find: `n = 10;`
    with:
LIST
);
Plant::spew("$tree/$_", $files{$_}) for keys %files;
chmod 0755, "$tree/tests/run", "$tree/tests/mutants/run";

# Exit status, and what it said, in the order of the alphabet.
sub judged {
    my @said = sort split /\n/, `cd '$tree' && tests/mutants/run @_ 2>&1`;
    return [$? >> 8, grep { !/^(?:building|ok)/ } @said];
}

SKIP: {
    skip 'no git', 3 if system("git init -q '$tree' >/dev/null 2>&1") != 0;
    my $stale = 'stale gone: its text is there 0 times';
    is_deeply judged('--check'), [1, '3 of 4 have their place', $stale], 'a stale one is named';
    is_deeply judged(),
        [
        1,
        '1 of 4 killed; 1 survived, 1 not reached, 1 stale',
        '3 of 4 have their place',
        'killed found: by tests/a.t',
        'not reached far', $stale, 'survived missed: 1 of 1 tests'
        ],
        'each gets its word';
    is_deeply judged(qw(--resume --only found)), [1, '1 of 1 killed', '3 of 4 have their place', 'killed found: by tests/a.t', $stale],
        'what is known is not run again';
}
done_testing;
