# The service: where its program, manual, settings and systemd unit go.
#
#   make install PREFIX=/usr/local DESTDIR=      make uninstall, the same
#   more: SYSCONFDIR= UNITDIR= MANDIR= DOCDIR= COMPLETIONDIR=
#
# Included by the Makefile, after lock/install.mk. The pages of static/ are in the
# program. A file of settings that somebody has changed is left alone.

BINDIR        ?= $(PREFIX)/bin
SYSCONFDIR    ?= $(if $(filter /usr,$(PREFIX)),/etc,$(PREFIX)/etc)
UNITDIR       ?= $(PREFIX)/lib/systemd/system
DOCDIR        ?= $(PREFIX)/share/doc/stockade
COMPLETIONDIR ?= $(PREFIX)/share/bash-completion/completions

EXAMPLE_CONF := $(DESTDIR)$(DOCDIR)/stockade.conf
CONF         := $(DESTDIR)$(SYSCONFDIR)/stockade/stockade.conf
# One file: what differs between its two names, the unit's name says (%N).
UNITS        := $(addprefix $(DESTDIR)$(UNITDIR)/,stockade.service stockade@.service)

.PHONY: install uninstall install-server uninstall-server

install: install-dlock install-server
uninstall: uninstall-dlock uninstall-server

# The example is the table of settings of the program that is installed with it.
install-server: $(B)/stockade
	install -d $(DESTDIR)$(BINDIR) $(DESTDIR)$(UNITDIR) $(DESTDIR)$(DOCDIR) \
	    $(DESTDIR)$(COMPLETIONDIR) $(DESTDIR)$(MANDIR)/man1 $(DESTDIR)$(MANDIR)/man5 \
	    $(DESTDIR)$(SYSCONFDIR)/stockade
	install -m 755 $(B)/stockade $(DESTDIR)$(BINDIR)/stockade
	install -m 644 server/stockade.1 $(DESTDIR)$(MANDIR)/man1
	install -m 644 server/stockade.conf.5 $(DESTDIR)$(MANDIR)/man5
	install -m 644 server/deploy/stockade.bash $(DESTDIR)$(COMPLETIONDIR)/stockade
	for unit in $(UNITS); do \
	    sed -e 's|/usr/local/bin|$(BINDIR)|' -e 's|/usr/local/etc|$(SYSCONFDIR)|' \
	        server/deploy/stockade.service >$$unit && chmod 644 $$unit || exit 1; done
	$(B)/stockade serve --example-config >$(EXAMPLE_CONF)
	chmod 644 $(EXAMPLE_CONF)
	[ -e $(CONF) ] || install -m 644 $(EXAMPLE_CONF) $(CONF)

uninstall-server:
	! cmp -s $(EXAMPLE_CONF) $(CONF) || rm $(CONF)
	rm -f $(DESTDIR)$(BINDIR)/stockade $(DESTDIR)$(MANDIR)/man1/stockade.1 \
	    $(DESTDIR)$(MANDIR)/man5/stockade.conf.5 $(DESTDIR)$(COMPLETIONDIR)/stockade \
	    $(UNITS) $(EXAMPLE_CONF)
	rmdir $(DESTDIR)$(DOCDIR) $(dir $(CONF)) 2>/dev/null || true
