"""What `make java` does on machines that have Java, can install it, or neither."""

from dev import java
from dev.installing import Way, ensure, run


class Machine:
    """Has a usable Java once the way named `gives` has been gone."""

    def __init__(self, gives=None):
        self.gives = gives
        self.gone = []

    def find(self):
        return "/jdk" if self.gives in self.gone else None

    def way(self, name, well=True):
        return Way(name, lambda: self.gone.append(name) or well)


def test_where_there_is_a_java_nothing_is_installed():
    machine = Machine()
    assert ensure("it", lambda: "/usr/lib/jvm/17", [machine.way("apt")]) == "/usr/lib/jvm/17"
    assert machine.gone == []


def test_the_first_way_that_works_is_the_last_that_is_gone():
    machine = Machine(gives="apt")
    assert ensure("it", machine.find, [machine.way("apt"), machine.way("user")]) == "/jdk"
    assert machine.gone == ["apt"]


def test_the_next_way_is_gone_where_one_fails_or_gives_nothing_usable():
    machine = Machine(gives="third")
    ways = [machine.way("first", well=False), machine.way("second"), machine.way("third")]
    assert ensure("it", machine.find, ways) == "/jdk"
    assert machine.gone == ["first", "second", "third"]


def test_only_root_on_a_machine_with_apt_uses_apt():
    names = [
        [way.install for way in java.ways(root=root, apt=apt)]
        for root, apt in ((True, True), (True, False), (False, True))
    ]
    assert names[0] == [java.install_with_apt, java.install_for_user]
    assert names[1] == names[2] == [java.install_for_user]


def test_without_any_java_it_says_what_to_do_and_fails(monkeypatch, capsys):
    monkeypatch.setattr(java, "find", lambda: None)
    monkeypatch.setattr(java, "ways", lambda **machine: [Machine().way("user", well=False)])
    assert java.main() == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "That did not work: user" in captured.err
    assert "JAVA_HOME" in captured.err
    assert "openjdk-17-jre-headless" in captured.err


def test_stdout_has_the_home_and_nothing_else(monkeypatch, capsys):
    monkeypatch.setattr(java, "find", lambda: "/usr/lib/jvm/17")
    assert java.main() == 0
    assert capsys.readouterr().out == "/usr/lib/jvm/17\n"


def test_an_installer_that_is_not_there_is_a_way_that_failed(capfd):
    assert run("no-such-installer-anywhere") is False
    assert "no-such-installer-anywhere" in capfd.readouterr().err
