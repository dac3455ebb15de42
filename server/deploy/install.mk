# The service: where its program, manual, settings and systemd unit go.
#
#   make install PREFIX=/usr/local DESTDIR=      make uninstall, the same
#   more: SYSCONFDIR= UNITDIR= MANDIR= DOCDIR= COMPLETIONDIR=
#
# Included by the Makefile, after lock/install.mk. The pages of static/ are in the
# program. A file of settings that somebody has changed is left alone; an installed
# service begins without example products.

BINDIR        ?= $(PREFIX)/bin
SYSCONFDIR    ?= $(if $(filter /usr,$(PREFIX)),/etc,$(PREFIX)/etc)
UNITDIR       ?= $(PREFIX)/lib/systemd/system
DOCDIR        ?= $(PREFIX)/share/doc/stockade
COMPLETIONDIR ?= $(PREFIX)/share/bash-completion/completions

EXAMPLE_CONF := $(DESTDIR)$(DOCDIR)/stockade.conf
CONF         := $(DESTDIR)$(SYSCONFDIR)/stockade/stockade.conf
# One file: what differs between its two names, the unit's name says (%N).
UNITS        := $(addprefix $(DESTDIR)$(UNITDIR)/,stockade.service stockade@.service)

PAGES        := $(DESTDIR)$(MANDIR)/man1/stockade.1 $(DESTDIR)$(MANDIR)/man5/stockade.conf.5
# The manual of a lock of one's own, and locks to copy.
OWN_LOCK     := $(LOCK_TEXTS) lock/textbook/text.h
EXAMPLES     := prometheus-alerts.yml grafana-dashboard.json nginx.conf haproxy.cfg
# What is written for /usr/local.
HERE         := sed -e 's|/usr/local/bin|$(BINDIR)|' -e 's|/usr/local/etc|$(SYSCONFDIR)|' \
                    -e 's|/usr/local/share/doc/stockade|$(DOCDIR)|'

INSTALL_PATHS := $(INSTALL_PATHS)$(BINDIR)$(SYSCONFDIR)$(UNITDIR)$(DOCDIR)$(COMPLETIONDIR)

.PHONY: install uninstall install-server uninstall-server

install: install-dlock install-server
uninstall: uninstall-dlock uninstall-server

install-server: plain-paths $(B)/stockade $(B)/stockade-lab
	install -d $(DESTDIR)$(BINDIR) $(DESTDIR)$(UNITDIR) $(DESTDIR)$(DOCDIR)/locks \
	    $(DESTDIR)$(COMPLETIONDIR) $(DESTDIR)$(MANDIR)/man1 $(DESTDIR)$(MANDIR)/man5 \
	    $(DESTDIR)$(SYSCONFDIR)/stockade
	install -m 755 $(B)/stockade $(B)/stockade-lab $(DESTDIR)$(BINDIR)
	for page in $(PAGES); do \
	    $(HERE) server/$${page##*/} >$$page && chmod 644 $$page || exit 1; done
	install -m 644 $(addprefix server/deploy/,$(EXAMPLES)) $(DESTDIR)$(DOCDIR)
	install -m 644 $(OWN_LOCK) $(DESTDIR)$(DOCDIR)/locks
	install -m 644 server/deploy/stockade.bash $(DESTDIR)$(COMPLETIONDIR)/stockade
	for unit in $(UNITS); do \
	    $(HERE) server/deploy/stockade.service >$$unit && chmod 644 $$unit || exit 1; done
	$(HERE) server/deploy/stockade.conf >$(EXAMPLE_CONF) && chmod 644 $(EXAMPLE_CONF)
	[ -e $(CONF) ] || install -m 644 $(EXAMPLE_CONF) $(CONF)

uninstall-server: plain-paths
	! cmp -s $(EXAMPLE_CONF) $(CONF) || rm $(CONF)
	rm -f $(DESTDIR)$(BINDIR)/stockade $(DESTDIR)$(BINDIR)/stockade-lab $(PAGES) \
	    $(DESTDIR)$(COMPLETIONDIR)/stockade \
	    $(UNITS) $(EXAMPLE_CONF) $(addprefix $(DESTDIR)$(DOCDIR)/,$(EXAMPLES)) \
	    $(addprefix $(DESTDIR)$(DOCDIR)/locks/,$(notdir $(OWN_LOCK)))
	rmdir $(DESTDIR)$(DOCDIR)/locks $(DESTDIR)$(DOCDIR) $(dir $(CONF)) 2>/dev/null || true
