# Goal of this test: every lock holds what is expected of it and fails what it
# must fail, measured; and the README's table is what the command prints.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/e2e";
use JSON::PP ();
use Stockade;
use Test::More;

# ---- the command line ------------------------------------------------------

my $wrong = Stockade::run([qw(lab locks --lock no-such-lock)]);
is $wrong->{exit}, 2, 'a lock that is not there';
like $wrong->{err}, qr/no lock 'no-such-lock'/, 'and it is said';
is Stockade::run([qw(lab locks --wrong)])->{exit}, 2, 'a flag that is not there';
is Stockade::run([qw(lab nothing)])->{exit}, 2, 'an experiment that is not there';
is Stockade::run([qw(lab locks --help)])->{exit}, 0, 'help';

my $one = Stockade::run([qw(lab locks --lock none --json)]);
is $one->{exit}, 0, 'one lock, as JSON';
my $json = JSON::PP->new->utf8->decode($one->{out});
is $json->{differences}, 0, 'without differences';
is $json->{locks}[0]{properties}{X}{verdict}, 'fails', 'none does not exclude';
like $json->{locks}[0]{properties}{X}{evidence}, qr/two hold it/, 'and there is evidence';

# ---- all locks, all properties ---------------------------------------------

my $all = Stockade::run([qw(lab locks --markdown)], seconds => 100);
is $all->{exit}, 0, 'every lock is as expected' or diag $all->{err};

# name => its row, of the locks that were run
sub rows_of {
    my ($table) = @_;
    return map { /^\| `(\S+)` \|(?! \?)/ ? ($1 => $_) : () } split /\n/, $table;
}

my %measured = rows_of($all->{out});
my ($shown) = Stockade::slurp("$Stockade::ROOT/README.md") =~ /<!-- locks -->\n(.*?)<!-- end of locks -->/s;
my %told = rows_of($shown // '');
cmp_ok scalar keys %measured, '>', 6, 'locks were run';
for my $lock (sort keys %measured) {
    is $told{$lock}, $measured{$lock}, "the README says of $lock what was measured (make readme-locks)";
}
done_testing;
