# stockade: an order service for flash sales, and the locks it needs.
#
#   make demo       install what is missing, build, show the oversell and its cure
#   make lab        a page on which you break locks by clicking; Ctrl-C ends it
#   make test       install what is missing, build, run the tests
#   make test-all   the same, with the locks over MariaDB and ZooKeeper, with tools
#                   that read openapi.json, alerts and metrics, and a browser
#   make test-long  five of these tests in their long form (an hour)
#   make test-hosts three hosts, a Galera cluster, Sentinel: what they survive (root)
#   make            build build/stockade and build/libdlock.a
#   make install    the service and libdlock, to PREFIX=/usr/local under DESTDIR=;
#                   make install-dlock: the library alone; make uninstall
#   make loadtest   one load test: LOCK= INSTANCES= CONNECTIONS= STOCK= ...
#   make bench      orders a second next to nginx, and what was promised (30 min)
#   make bench-open    latency when customers come at a constant rate
#   make bench-segments   what it brings to split a stock over segments
#   make bench-mysql   what batches bring on MariaDB, next to SQLite
#   make bench-cluster what a Galera cluster makes of a sale, segments and instances
#   make explore    how each lock breaks: all schedules, into server/lab/README.md (up to 3 3/4 hours)
#   make planted    bugs, one at a time: which of them the search finds (an hour or two)
#   make mutants    bugs, one at a time: which of them the tests find (an hour or two)
#   make pictures   the README's pictures of the pages, drawn anew
#   make bench-explore how many schedules a second are played on the stage
#   make profile    what an order costs: CPU, functions, system calls
#   make bench-locks   what locks cost, next to the same commands sent raw
#   make readme-locks  the README's table of locks, measured anew
#   make lint       formatters and static analysis; NODES=225000 follows all paths
#   make test-san   C tests, and scripts that press a server, under sanitizers
#   make deps       install the packages that building and running need
#   make clean      make help: this list
#
# SAN=address,undefined or SAN=thread builds into a folder of its own.

# Nothing here is made by a rule that make brings along; to look for one takes it a second.
MAKEFLAGS += --no-builtin-rules

VERSION := 0.1.0
# Of libdlock. The first number changes when programs have to be built anew.
DLOCK_VERSION := 0.1.0
CC      ?= gcc
# Only where races are looked for a test's time is worth the compiler's.
CFLAGS  ?= $(if $(SAN),$(if $(findstring thread,$(SAN)),-O1,-O0) -g1,-O2 -g)
WARN    := -std=c11 -Wall -Wextra -Wconversion -Wshadow -Wvla \
           -Wstrict-prototypes -Wmissing-prototypes
WERROR  ?=
SAN     ?=
comma   := ,
B       := build$(if $(SAN),/san-$(subst $(comma),-,$(SAN)))
V       ?= 0
Q       := $(if $(filter 1,$(V)),,@)

# Locks that can be left out: without the headers of their client library they
# are not built.
HAVE_SQL := $(shell pkg-config --exists libmariadb 2>/dev/null && echo yes)
HAVE_ZK  := $(shell printf '\043include <zookeeper/zookeeper.h>\n' | \
              $(CC) -E -x c - >/dev/null 2>&1 && echo yes)
LOCK_CPP := $(if $(HAVE_SQL),$(patsubst -I%,-isystem %,$(shell pkg-config --cflags libmariadb)))
SQL_LIB  := $(if $(HAVE_SQL),$(shell pkg-config --libs libmariadb))
ZK_LIB   := $(if $(HAVE_ZK),-lzookeeper_mt)
# So can TLS.
HAVE_TLS := $(shell pkg-config --exists libssl 2>/dev/null && echo yes)
TLS_LIB  := $(if $(HAVE_TLS),-lssl -lcrypto)

# Without it the service tells no service manager how it is.
HAVE_SYSTEMD := $(shell pkg-config --exists libsystemd 2>/dev/null && echo yes)

# Without it the page of the laboratory has tables in place of charts.
CHART_JS := $(wildcard /usr/share/javascript/chart.js/chart.min.js)

PKGS    := libmicrohttpd hiredis jansson sqlite3 libcurl
# Without -O2 gcc knows no bounds of numbers, so that it takes texts to be too long.
SANFLAG := $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -Wno-format-truncation)
# A table of uthash without memory leaves the new member out (its hh.tbl is NULL), where
# it would end the program.
CPPFLAGS_ALL := -D_GNU_SOURCE -DSTOCKADE_VERSION=$(VERSION) \
                $(if $(HAVE_SYSTEMD),-DHAVE_SYSTEMD) -I. -I$(B)/gen \
                -DHASH_NONFATAL_OOM=1 \
                -DDLOCK_CORE=dlock_core_$(subst .,_,$(DLOCK_VERSION)) \
                $(LOCK_CPP) $(CPPFLAGS)
CFLAGS_ALL   := $(WARN) $(WERROR) $(CFLAGS) $(SANFLAG) -pthread
LDFLAGS_ALL  := $(LDFLAGS) $(SANFLAG) -pthread
# Of some hundred programs that only test, the quick linker saves most of the time.
TEST_LD      := $(if $(shell command -v ld.gold),-fuse-ld=gold)
LDLIBS       := -lmicrohttpd -lhiredis $(SQL_LIB) $(ZK_LIB) $(TLS_LIB) -ljansson -lsqlite3 -lcurl -lunistring \
                $(if $(HAVE_SYSTEMD),-lsystemd)

# lock/ is libdlock; its parts, the locks on several servers and what needs a client
# library more, are libraries of their own; and the textbook's, which are not installed.
DLOCK_PARTS := $(if $(HAVE_SQL),sql) $(if $(HAVE_ZK),zk) quorum $(if $(HAVE_TLS),tls)
part_src    = $(wildcard lock/$(patsubst zk,zookeeper,$(1))/*.c)
TEXTBOOK_SRC := $(wildcard lock/textbook/*.c)
LOCK_SRC   := $(wildcard $(addprefix lock/,core/*.c async/*.c dial/*.c redis/*.c deadlock/*.c))
DB_SRC     := $(filter-out $(if $(HAVE_SQL),,db/mysql/%),$(wildcard db/*.c db/*/*.c))
STAGE_SRC  := $(wildcard $(addprefix server/lab/,stage_main.c scene/*.c turns/*.c search/*.c explore/*.c stage/*.c picture/*.c replay/*.c path/*.c serve/*.c programs/*.c lessons/*.c world/*.c experiments/*.c load/*.c))
SERVER_SRC := $(filter-out $(STAGE_SRC),$(wildcard server/*.c server/*/*.c server/*/*/*.c))
TEST_SRC   := $(wildcard tests/test_*.c)
FULL_SRC   := $(if $(and $(HAVE_SQL),$(HAVE_ZK)),$(wildcard tests/full/test_*.c))
HELP_SRC   := $(wildcard tests/support/*.c)
BENCH_SRC  := $(wildcard tests/bench/bench_*.c)
TEXT       := $(wildcard db/*/*.sql static/*) loadtest/orders.lua server/base/about.lua server/lab/servers/look.lua server/lab/replay/svg.css $(wildcard server/lab/help/*.txt)

obj         = $(patsubst %.c,$(B)/%.o,$(1))
LOCK_OBJ   := $(call obj,$(LOCK_SRC))
TEXTBOOK_OBJ := $(call obj,$(if $(HAVE_SQL),$(TEXTBOOK_SRC),\
                $(filter-out lock/textbook/lock_recorded.c,$(TEXTBOOK_SRC))))
PARTS_A    := $(DLOCK_PARTS:%=$(B)/libdlock-%.a)
# In the order in which they need each other.
LOCKS      := $(B)/libdlock-textbook.a $(PARTS_A) $(B)/libdlock.a
DB_OBJ     := $(call obj,$(DB_SRC))
SERVER_OBJ := $(call obj,$(SERVER_SRC))
HELP_OBJ   := $(call obj,$(HELP_SRC))
LOCK_TEXTS := $(sort $(wildcard lock/textbook/*.lock))
LAB_TEXTS  := experiments path # folders of text files, each in one table
ROWS       := $(addprefix server/lab/,scene/faults scene/moves scene/numbers scene/roles base/properties base/expected search/bounds explore/ways replay/steps picture/replies programs/programs conform/late)
ROWS       += $(addprefix server/,base/settings base/order_outcomes base/metrics base/histograms http/problems) db/audit lock/core/strategies
LAB_JS     := $(notdir $(wildcard static/lab*.js)) browser.js chart.js # of its page
SHOP_JS    := $(filter-out lab%,$(notdir $(wildcard static/*.js)))
GEN        := $(patsubst %,$(B)/gen/%.inc,$(TEXT)) $(B)/gen/lock/backends.h $(B)/gen/lock/core/sets.h \
              $(B)/gen/server/lab/world/clock_preload.inc $(LAB_TEXTS:%=$(B)/gen/server/lab/%/all.inc) \
              $(B)/gen/lock/textbook/all.inc $(B)/gen/lock/redis/ask.lua.inc
GEN        += $(B)/gen/static/chart.js.inc $(B)/gen/server/lab/serve/scripts.inc $(B)/gen/server/http/scripts.inc $(ROWS:%=$(B)/gen/%.inc) $(B)/gen/server/lab/picture/chinese.inc
TEXT_TO_C  := sed -e 's/\\/\\\\/g' -e 's/["?]/\\&/g' -e 's/^/"/' -e 's/$$/\\n"/'
TESTS      := $(patsubst tests/%.c,$(B)/tests/%,$(TEST_SRC))
FULL_TESTS := $(patsubst tests/%.c,$(B)/tests/%,$(FULL_SRC))

include lock/scripts.mk
GEN += $(SCRIPT_INC) $(SCRIPT_H) $(B)/gen/lock/scripts.inc

BUILD_DEPS := gcc make coreutils pkg-config libc6-dev libmicrohttpd-dev \
              libhiredis-dev libjansson-dev libsqlite3-dev uthash-dev \
              libcurl4-openssl-dev libsystemd-dev libssl-dev libunistring-dev libjs-chart.js redis-server curl jq
DEMO_DEPS  := $(BUILD_DEPS) wrk perl
TEST_DEPS  := $(DEMO_DEPS) g++ libcmocka-dev sqlite3 man-db \
              nginx haproxy openssl redis-tools
# What comes with an npm of its own, as nodesource's nodejs does, keeps it.
NPM_DEPS    = nodejs $(if $(shell command -v npm 2>&1),,npm)
SQL_DEPS   := libmariadb-dev mariadb-server-core mariadb-client-core
# mariadb-server: how a node of a cluster gets the data.
GALERA_DEPS := $(SQL_DEPS) mariadb-server galera-4 rsync
FULL_DEPS   = $(GALERA_DEPS) libzookeeper-mt-dev libzookeeper-java default-jre-headless strace \
              prometheus python3-venv systemd chromium-headless-shell libnginx-mod-http-lua $(NPM_DEPS)
HOSTS_DEPS := $(TEST_DEPS) $(GALERA_DEPS) redis-server iproute2 nftables
BENCH_DEPS := $(TEST_DEPS) libnginx-mod-http-lua linux-perf strace
LINT_DEPS   = $(TEST_DEPS) $(FULL_DEPS) $(HOSTS_DEPS) clang clang-format clang-tidy cppcheck git shellcheck

.PHONY: all pictures bench bench-explore explore planted mutants bench-open bench-segments bench-mysql bench-cluster profile bench-locks readme-locks deps demo lab test test-all test-long test-hosts test-san hosts-deps lint loadtest clean lint-deps browser-deps \
        test-binaries full-binaries browser help FORCE
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SECONDARY:

all: $(B)/stockade $(B)/stockade-lab $(B)/libdlock.a

$(B)/stockade: $(SERVER_OBJ) $(LOCKS) $(DB_OBJ)
	@echo "  LD    $@"
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LDLIBS)

# The stage of the laboratory: its actors block, sleep and look at the time as it
# wants. In a program of its own, so that what sells has none of that.
STAGE_WRAPS := pthread_create pthread_setname_np pthread_join pthread_mutex_lock \
               pthread_cond_wait pthread_cond_clockwait pthread_cond_signal \
               pthread_cond_broadcast sem_wait \
               clock_gettime nanosleep clock_nanosleep getrandom poll recv \
               dlock_acquire dlock_release dlock_acquire_async dlock_release_async dlock_extend \
               dlock_textbook_unnamed \
               store_naive_select store_naive_update store_naive_insert store_stamp store_place \
               store_is_gone store_source_attach store_fence_floor
STAGE_CLOCK := server/lab/world/clock_preload
# The floors of the laboratory that both programs have.
STAGE_SHARES := $(wildcard $(addprefix server/lab/,base/*.c servers/*.c timeline/*.c live/*.c))
STAGE_OBJ   := $(call obj,$(filter-out $(STAGE_CLOCK).c,$(STAGE_SRC)) $(STAGE_SHARES))

$(B)/stockade-lab: $(STAGE_OBJ) \
                   $(filter-out $(B)/server/lab/% $(B)/server/main.o,$(SERVER_OBJ)) \
                   $(LOCKS) $(DB_OBJ)
	@echo "  LD    $@"
	$(Q)$(CC) $(LDFLAGS_ALL) $(STAGE_WRAPS:%=-Wl,--wrap=%) -o $@ $^ $(LDLIBS)

# The clock goes into a redis-server, which knows of no sanitizer.
$(B)/gen/$(STAGE_CLOCK).inc: $(STAGE_CLOCK).c
	@mkdir -p $(@D)
	@echo "  CC    $<"
	$(Q)$(CC) -D_GNU_SOURCE $(WARN) $(WERROR) -O2 -fPIC -shared -o $@.so $<
	$(Q)od -An -v -tu1 $@.so | sed 's/ *\([0-9][0-9]*\)/\1,/g' >$@

$(B)/server/main.o $(B)/server/base/metrics.o: Makefile # have the version
$(B)/libdlock.a: $(LOCK_OBJ)
$(foreach part,$(DLOCK_PARTS),$(eval $(B)/libdlock-$(part).a: $(call obj,$(call part_src,$(part)))))
$(B)/libdlock-textbook.a: $(TEXTBOOK_OBJ)
$(LOCKS):
	@echo "  AR    $@"
	$(Q)rm -f $@ && $(AR) rcs $@ $^

# Which of the made files an object has, its .d file says.
$(B)/%.o: %.c | $(GEN)
	@mkdir -p $(@D)
	@echo "  CC    $<"
	$(Q)$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -MMD -MP -c -o $@ $<

# A text file as the C string literal it is included as; C11 reads "??=" as "#".
$(B)/gen/%.inc: %
	@mkdir -p $(@D)
	$(Q)$(TEXT_TO_C) $< >$@

# The library of another package may come and go: touched only if it has.
$(B)/gen/static/chart.js.inc: FORCE
	@mkdir -p $(@D)
	@{ echo '""'; $(if $(CHART_JS),$(TEXT_TO_C) $(CHART_JS);) } >$@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; \
	 $(if $(CHART_JS),,echo '  left out: charts (no libjs-chart.js)';) fi

# All texts of a folder: it is newer when a file has gone.
define table
$(B)/gen/$(1)/all.inc: $(sort $(wildcard $(1)/*.txt)) $(1)
	@mkdir -p $$(@D)
	$$(Q){ $(foreach file,$(sort $(wildcard $(1)/*.txt)),echo '{"$(notdir $(file))",'; $$(TEXT_TO_C) $(file); echo '},';) } >$$@
endef
$(foreach folder,$(LAB_TEXTS),$(eval $(call table,server/lab/$(folder))))

# The scripts of the laboratory's page, and of the shop's.
$(B)/gen/server/lab/serve/scripts.inc: JS := $(LAB_JS)
$(B)/gen/server/http/scripts.inc: JS := $(SHOP_JS)
$(B)/gen/server/lab/serve/scripts.inc $(B)/gen/server/http/scripts.inc: static Makefile
	@mkdir -p $(@D)
	$(Q){ $(foreach file,$(JS),echo '{"/$(file)", SCRIPT,'; echo '#include "static/$(file).inc"'; echo '},';) } >$@

# Tables of text as rows of a macro: the first column is C's. What is between two columns
# has a blank before it; in a column a | has none. The macro ends with its table.
$(ROWS:%=$(B)/gen/%.inc): $(B)/gen/%.inc: %.txt Makefile
	@mkdir -p $(@D)
	$(Q){ sed -e '/^#/d' -e '/^$$/d' -e 's/  *|/", "/g' -e 's/", "  */", "/g' -e 's/", "/, "/' -e 's/.*/ROW(&")/' $<; echo '#undef ROW'; } >$@

# The same of two columns with tabs between, in quotes where they have blanks at an end.
$(B)/gen/server/lab/picture/chinese.inc: server/lab/picture/chinese.txt Makefile
	@mkdir -p $(@D)
	$(Q){ sed -e '/^#/d' -e '/^$$/d' -e 's/^"//' -e 's/"$$//' -e 's/"\t/\t/' -e 's/\t"/\t/' -e 's/["?]/\\&/g' -e 's/\t\t*/", "/' -e 's/.*/ROW("&")/' $<; echo '#undef ROW'; } >$@

# All locks that are texts.
$(B)/gen/lock/textbook/all.inc: $(LOCK_TEXTS) lock/textbook
	@mkdir -p $(@D)
	$(Q){ $(foreach file,$(LOCK_TEXTS),echo '{"$(basename $(notdir $(file)))",'; $(TEXT_TO_C) $(file); echo '},';) } >$@

# Of each library its locks, as a list of X(NAME).
$(B)/gen/lock/core/sets.h: lock/core/strategies.txt Makefile
	@mkdir -p $(@D)
	$(Q)awk '/^[a-z]/ { gsub("-", "_"); for (i = 3; i <= NF; i += 2) of[$$1] = of[$$1] " X(" $$i ")" } \
	    END { for (set in of) print "#define DLOCK_SET_" set "(X)" of[set] }' $< >$@

# Which of the locks are in. Touched only if that has changed; said only then.
$(B)/gen/lock/backends.h: FORCE
	@mkdir -p $(@D)
	@{ echo '/* Made by the Makefile. */'; \
	   echo '#define DLOCK_WITH_SQL $(if $(HAVE_SQL),1,0)'; \
	   echo '#define DLOCK_WITH_ZK $(if $(HAVE_ZK),1,0)'; \
	   echo '#define DLOCK_WITH_TLS $(if $(HAVE_TLS),1,0)'; } >$@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; \
	 $(if $(HAVE_SQL),,echo '  left out: recorded sql-table sql-row (no libmariadb-dev)';) \
	 $(if $(HAVE_ZK),,echo '  left out: zk zk-fair (no libzookeeper-mt-dev)';) \
	 $(if $(HAVE_TLS),,echo '  left out: TLS to Redis (no libssl-dev)';) fi

# Built anew when libsystemd-dev has come or gone: the mark's name says which.
SYSTEMD_MARK := $(B)/gen/server/systemd-$(or $(HAVE_SYSTEMD),no)
$(B)/server/main_loop.o: $(SYSTEMD_MARK)
$(SYSTEMD_MARK):
	@mkdir -p $(@D) && rm -f $(@D)/systemd-* && touch $@
	@$(if $(HAVE_SYSTEMD),,echo '  left out: notices to systemd (no libsystemd-dev)')

# A test of the stage gets the stage, and no lab besides; one of them plants bugs.
PLANTED := dlock_command_init dlock_held_add order_set_decided one_by_one_run

$(filter $(B)/tests/test_stage% $(B)/tests/full/test_stage%,$(TESTS) $(FULL_TESTS)): $(B)/tests/%: $(B)/tests/%.o $(B)/tests/support/all_locks.o $(B)/tests/support/unit_test.o \
              $(LOCKS) $(DB_OBJ) \
              $(filter-out $(B)/server/lab/stage_main.o,$(STAGE_OBJ)) \
              $(filter-out $(B)/server/lab/% $(B)/server/main.o,$(SERVER_OBJ))
	@echo "  LD    $@"
	$(Q)$(CC) $(LDFLAGS_ALL) $(TEST_LD) $(STAGE_WRAPS:%=-Wl,--wrap=%) $(if $(findstring planted,$@),$(PLANTED:%=-Wl,--wrap=%)) \
	  -o $@ $(filter %.o,$^) $(LOCKS) $(LDLIBS) -lcmocka

# A test is compiled for each of CI's builds, and waits for what it tests.
$(call obj,$(TEST_SRC) $(FULL_SRC)): CFLAGS_ALL += -O0 -Wno-format-truncation
# Its hooks and callbacks need not read all that they are told.
$(call obj,$(TEST_SRC) $(FULL_SRC) $(HELP_SRC) $(BENCH_SRC)): CFLAGS_ALL += -Wno-unused-parameter

# A test binary gets what it uses of everything but main(), and the engine that db/sql.h
# knows of if it is there.
$(B)/tests/%: $(B)/tests/%.o $(B)/tests/support/unit_test.o $(B)/tests/support/all_locks.o $(B)/tests/libsupport.a $(B)/tests/libserver.a $(LOCKS)
	@echo "  LD    $@"
	$(Q)$(CC) $(LDFLAGS_ALL) $(TEST_LD) $(if $(HAVE_SQL),-Wl$(comma)-u$(comma)mysql_engine) -o $@ $^ $(LDLIBS) -lcmocka

# There may be no memory.
$(B)/tests/test_stage: TEST_LD += -Wl,--wrap=calloc

# Its disk can be slow.
$(B)/tests/test_timeline: TEST_LD += -Wl,--wrap=timeline_write_event

# Their tables can be without memory.
$(B)/tests/test_queue $(B)/tests/test_hints: TEST_LD += -Wl,--wrap=malloc

# Archives that only name their objects: with all of them a hundred programs take the
# linker much longer.
$(B)/tests/libsupport.a: $(HELP_OBJ)
$(B)/tests/libserver.a: $(filter-out $(B)/server/main.o,$(SERVER_OBJ)) $(DB_OBJ)
$(B)/tests/libsupport.a $(B)/tests/libserver.a:
	@echo "  AR    $@"
	$(Q)rm -f $@ && $(AR) rcs --thin $@ $^

$(B)/bench_locks: $(call obj,$(BENCH_SRC)) $(B)/tests/libsupport.a $(LOCKS)
	@echo "  LD    $@"
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LDLIBS)

# The server that stores nothing: a bench's ceiling.
$(B)/stockade-null: $(SERVER_OBJ) $(B)/tests/bench/null.o $(LOCKS) $(DB_OBJ)
	@echo "  LD    $@"
	$(Q)$(CC) $(LDFLAGS_ALL) -Wl,--wrap=store_source_attach -o $@ $^ $(LDLIBS)

$(B)/open_load: $(B)/tests/bench/open_load.o
	@echo "  LD    $@"
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $^

BENCHES := $(B)/bench_locks $(B)/stockade-null $(B)/open_load

# Scripts of tests/full run some of the tests' binaries; under a sanitizer none needs a bench.
test-binaries: $(TESTS)
full-binaries: $(FULL_TESTS) $(filter $(B)/tests/test_store% $(B)/tests/test_stage,$(TESTS)) $(if $(FULL_TESTS),$(B)/tests/full/with_servers) $(if $(SAN),,$(BENCHES))

# What tests/browser needs, as its lock file says: outside of tests/.
browser: build/browser/node_modules/.package-lock.json

build/browser/node_modules/.package-lock.json: tests/browser/package.json tests/browser/package-lock.json
	@echo "  NPM   build/browser"
	$(Q)mkdir -p build/browser && cp $^ build/browser
	$(Q)cd build/browser && npm ci --loglevel=error --ignore-scripts --no-audit --no-fund

# A font for the button that says "Chinese", in Chinese.
pictures: all browser
	@.ci/deps fonts-wqy-microhei
	$(Q)node tests/browser/pictures.mjs server/lab

# Packages first, then make anew: this make was read before they were there.
PARALLEL := $(MAKE) -s --no-print-directory -j$(shell nproc)

deps:
	@.ci/deps $(BUILD_DEPS)

browser-deps:
	@.ci/deps $(BUILD_DEPS) chromium-headless-shell $(NPM_DEPS)

lint-deps:
	@.ci/deps $(LINT_DEPS)

help:
	@sed -n '/^$$/q; s/^# \{0,1\}//p' Makefile

demo:
	@.ci/deps $(DEMO_DEPS)
	@$(PARALLEL) all
	@loadtest/demo

lab:
	@.ci/deps $(DEMO_DEPS)
	@$(PARALLEL) all
	@exec $(B)/stockade lab serve

# What was said to make, LOCK=none and the like, is for the runner, which knows
# the names; but for what is make's own.
SAID := $(filter-out B=% CC=% CFLAGS=% SAN=% V=% WERROR=%,$(MAKEOVERRIDES))

loadtest:
	@.ci/deps $(DEMO_DEPS)
	@$(PARALLEL) all
	@loadtest/run $(SAID)

bench profile:
	@.ci/deps $(BENCH_DEPS)
	@$(PARALLEL) all $(BENCHES)
	@loadtest/$@ BUILD=$(B) $(SAID)

# Sections of the bench, each alone. With libmariadb-dev first: this make was read
# before it was there.
bench-open bench-segments: NEEDS := $(BENCH_DEPS)
bench-mysql: NEEDS := $(TEST_DEPS) $(SQL_DEPS)
bench-cluster: NEEDS := $(TEST_DEPS) $(GALERA_DEPS)
bench-open bench-segments bench-mysql bench-cluster:
	@.ci/deps $(NEEDS)
	@$(PARALLEL) all $(BENCHES)
	@loadtest/bench ONLY=$(@:bench-%=%) BUILD=$(B) OUT=$(B)/$@ $(SAID)

explore:
	@.ci/deps $(TEST_DEPS)
	@$(PARALLEL) all
	@tests/readme-explore $(B)/stockade

planted:
	@.ci/deps $(TEST_DEPS) patch
	@$(PARALLEL) all
	@tests/planted/run

mutants:
	@.ci/deps $(TEST_DEPS) $(FULL_DEPS) git
	@tests/mutants/run

bench-explore:
	@.ci/deps $(BENCH_DEPS)
	@$(PARALLEL) all
	@loadtest/bench-explore $(B)/stockade

test:
	@.ci/deps $(TEST_DEPS)
	@tests/run

LONG := e2e/pay.t e2e/kill9.t full/segment-sale.t full/openapi.t full/stage.t

test-all:
	@.ci/deps $(TEST_DEPS) $(FULL_DEPS)
	@$(PARALLEL) browser
	@FULL=$${FULL:-yes} tests/run

# Those of them that have a longer form than is worth the time of each change.
test-long:
	@.ci/deps $(TEST_DEPS) $(FULL_DEPS)
	@STOCKADE_HOLDS=100000 STOCKADE_UNITS=100000 STOCKADE_KILLS=80 EXAMPLES=300 STAGE_FULL=yes \
	 FULL=yes LIMIT_S=3600 tests/run $(addprefix tests/,$(LONG))

test-hosts:
	@tests/hosts/run

hosts-deps:
	@.ci/deps $(HOSTS_DEPS)

bench-locks:
	@.ci/deps $(TEST_DEPS)
	@$(PARALLEL) $(B)/bench_locks
	@$(B)/bench_locks

readme-locks:
	@.ci/deps $(TEST_DEPS) $(FULL_DEPS)
	@$(PARALLEL) all $(B)/tests/full/with_servers
	@$(B)/tests/full/with_servers tests/readme-locks $(B)/stockade

test-san:
	@.ci/deps $(TEST_DEPS) $(FULL_DEPS)
	@$(MAKE) -s --no-print-directory -k -j2 --output-sync test-san-address,undefined test-san-thread

# Side by side, because most of these tests wait. The makes that tests start know nothing
# of the jobs of this one.
test-san-%:
	@MAKEFLAGS= FULL=yes SAN=$* tests/run

# It may begin beside the tests, which build: they take turns.
lint:
	@.ci/deps $(LINT_DEPS)
	@mkdir -p build && flock build/.lock $(PARALLEL) $(GEN)
	@CPPFLAGS_ALL='$(CPPFLAGS_ALL)' tests/lint

clean:
	rm -rf build

include lock/install.mk
include server/deploy/install.mk

-include $(shell find $(B) -name '*.d' 2>/dev/null)
