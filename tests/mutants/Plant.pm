# Planted bugs: their records, and how they get into the sources.
#
# A record of a *.list:
#
#   NAME
#       breaks: what does not work any more, in plain words
#       find:   text of one source, with what is replaced in `backquotes`
#       with:   what stands there instead; empty: nothing
#
# Its name and number say nothing of a place: the text has to be in the sources
# exactly once, wherever that is. Blanks, line ends and comments between words do not
# matter. Backquotes hold an expression, or statements if they end in ";" or "}".
package Plant;
use strict;
use warnings;
use File::Basename qw(basename);

my @FIELDS  = qw(breaks find with);
my $BETWEEN = qr{(?:\s|/\*(?:(?!\*/).)*\*/)*}s;

sub slurp {
    my ($path) = @_;
    open my $file, '<:raw', $path or die "$path: $!\n";
    local $/ = undef;
    return scalar <$file>;
}

sub spew {
    my ($path, $text) = @_;
    open my $file, '>:raw', $path or die "$path: $!\n";
    print {$file} $text;
    close $file or die "$path: $!\n";
    return;
}

# All bugs of these lists, in their order, as hashes with what the record says, and
# {area}, the list's name. A bug's number is its place from 1 on.
sub read_lists {
    my (@bugs, %seen, $field);
    for my $path (@_) {
        for (split /\n/, slurp($path)) {
            if (/^(\w[\w-]*)$/) {
                die "$path: $1 is there twice\n" if $seen{$1}++;
                push @bugs, { name => $1, area => basename($path, '.list'), number => @bugs + 1 };
            }
            elsif (/^\s+(\w+):\s*(.*)$/ && grep { $_ eq $1 } @FIELDS) {
                $field = $1;
                $bugs[-1]{$field} = $2;
            }
            elsif (/^\s+(\S.*)$/) {
                $bugs[-1]{$field} .= "\n$1";
            }
            elsif (/^[^#]/) {
                die "$path: what is '$_'?\n";
            }
        }
    }
    for my $bug (@bugs) {
        die "$bug->{name}: needs breaks, find and with\n" if grep { !defined $bug->{$_} } @FIELDS;
        die "$bug->{name}: find needs two backquotes\n" if ($bug->{find} =~ tr/`//) != 2;
    }
    return @bugs;
}

# Words and signs of C, one after the other.
sub pattern_of {
    my ($text) = @_;
    my @words = $text =~ /"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\w+|[^\w\s]/g;
    return join $BETWEEN, map { /^\w/ ? "\\b\Q$_\E\\b" : quotemeta } @words;
}

# [path, from, length] of what BUG replaces, for each place that has its text. TEXTS:
# path => text.
sub places {
    my ($bug, $texts) = @_;
    my ($before, $old, $after) = map { pattern_of($_) } split /`/, $bug->{find}, 3;
    my $all = qr/$before$BETWEEN($old)$BETWEEN$after/;
    my @places;
    for my $path (sort keys %$texts) {
        pos($texts->{$path}) = 0;
        while ($texts->{$path} =~ /$all/g) {
            push @places, [$path, $-[1], $+[1] - $-[1]];
            pos($texts->{$path}) = $-[1] + 1;
        }
    }
    return @places;
}

# OLD, as it is and as BUG has it, by the switch. In one line more than OLD never.
sub switched {
    my ($bug, $old) = @_;
    my ($on, $new) = ("mutant_on($bug->{number})", $bug->{with} =~ s/\n/ /gr);
    return "($on ? ($new) : ($old))" if $old !~ /[;}]\s*\z/;
    return "{ if ($on) { $new } else { $old } }";
}

# Plants all bugs into TEXTS, path => text. Returns those that have no place there, or
# several: bug number => how many places.
sub plant {
    my ($bugs, $texts) = @_;
    my (%stale, %at);
    for my $bug (@$bugs) {
        my @places = places($bug, $texts);
        if (@places == 1) {
            push @{ $at{ $places[0][0] } }, [@{ $places[0] }[1, 2], $bug];
        }
        else {
            $stale{ $bug->{number} } = @places;
        }
    }
    for my $path (keys %at) {
        my $text = $texts->{$path};
        my $end  = length $text;
        for (sort { $b->[0] <=> $a->[0] } @{ $at{$path} }) {
            my ($from, $length, $bug) = @$_;
            die "$path: $bug->{name} overlaps with another\n" if $from + $length > $end;
            substr($text, $from, $length) = switched($bug, substr $text, $from, $length);
            $end = $from;
        }
        $texts->{$path} = "#include <mutant.h>\n$text";
    }
    return %stale;
}

1;
