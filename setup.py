"""Compile the kernels, and put proofs and guides beside the code; all else is in pyproject.toml.

Each kernel is compiled for any processor and, on x86-64, once more for those since about 2013.
`python setup.py build_ext --inplace` compiles only what has changed. With DPSU_KERNELS=checked it
compiles them with checks of indices of arrays, into a folder of their own, for the tests.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

PACKAGE = "dpsu.kernels"
KERNELS = Path("src/dpsu/kernels")
C_FILES = Path("build/kernels")
# What Cython needs of its own for arrays is compiled once, and not in every module.
SHARED = f"{PACKAGE}._shared"
CHECKED = os.environ.get("DPSU_KERNELS") == "checked"
# One build serves every version of Python from this one on, unless there is no global lock.
STABLE_ABI = not sysconfig.get_config_var("Py_GIL_DISABLED")
HAS_NEWER = platform.machine() == "x86_64" and os.name != "nt"
# There is one build of these.
EVERYWHERE = ("processor", "_shared")
# Pages that `dpsu` prints, in folders of the package of the same name.
PAGES = ("proofs", "guides")
# Commands that compile.
BUILDS = {"bdist_wheel", "build", "build_ext", "editable_wheel", "install"}
DIRECTIVES = {
    "boundscheck": CHECKED,
    "wraparound": False,
    "initializedcheck": False,
    "cdivision": True,
    "infer_types": True,
    "binding": False,
    "freethreading_compatible": True,
}


def sources() -> list[Path]:
    """The kernels, as Python."""
    return [path for path in sorted(KERNELS.glob("*.py")) if path.stem != "__init__"]


def extension(name: str, source: Path) -> Extension:
    """One module of C, or of Python that is to become C."""
    return Extension(
        f"{PACKAGE}.{name}",
        [source.as_posix()],
        include_dirs=[KERNELS.as_posix()],
        define_macros=[("Py_LIMITED_API", "0x030B0000")] if STABLE_ABI else [],
        py_limited_api=STABLE_ABI,
    )


def modules(only_changed: bool) -> list[Extension]:
    """All modules as C, or those whose file beside the sources is older than what it is made of."""
    names = [path.stem for path in sources()]
    chosen = [name for name in names if not (only_changed and is_built(name))]
    found = []
    for module in translated(chosen):
        name = module.name.rpartition(".")[2]
        if CHECKED and name != "processor":
            found.append(variant("checked", module))
            continue
        found.append(module)
        if has_newer(name):
            found.append(variant("x86_64_v3", module))
    if not (only_changed and is_built("_shared")):
        found.append(extension("_shared", shared_code()))
    return found


def is_built(name: str) -> bool:
    """Whether the modules of this name are newer than all that they may be made of."""
    folders = ["", *(["x86_64_v3"] if has_newer(name) else [])]
    if CHECKED and name not in EVERYWHERE:
        folders = ["checked"]
    built = [
        path
        for folder in folders
        for path in (KERNELS / folder).glob(f"{name}.*")
        if path.suffix in (".so", ".pyd")
    ]
    made_of = [Path(__file__), *KERNELS.glob(f"{name}.py"), *KERNELS.glob("*.pxd")]
    made_of += KERNELS.glob("*.h")
    newest = max(path.stat().st_mtime for path in made_of)
    return len(built) == len(folders) and min(path.stat().st_mtime for path in built) >= newest


def has_newer(name: str) -> bool:
    """Whether a module is compiled for newer processors, too."""
    return HAS_NEWER and name not in EVERYWHERE


def remove_leftovers() -> None:
    """Delete modules of kernels that are gone, which could still be imported."""
    names = {*EVERYWHERE, *(path.stem for path in sources())}
    for path in (*KERNELS.rglob("*.so"), *KERNELS.rglob("*.pyd")):
        if path.name.partition(".")[0] not in names:
            path.unlink()


def translated(names: list[str]) -> list[Extension]:
    """Kernels as C."""
    if not names:
        return []
    from Cython.Build import cythonize

    C_FILES.mkdir(parents=True, exist_ok=True)
    made: list[Extension] = cythonize(
        [extension(name, KERNELS / f"{name}.py") for name in names],
        build_dir=(C_FILES / ("checked" if CHECKED else "plain")).as_posix(),
        # `modules` has decided, and looks at more than Cython does.
        force=True,
        include_path=["src"],
        compiler_directives=DIRECTIVES,
        language_level=3,
        shared_utility_qualified_name=SHARED,
        nthreads=0 if os.name == "nt" else os.cpu_count() or 1,
        quiet=True,
    )
    return made


def variant(folder: str, module: Extension) -> Extension:
    """The same module in another folder, from a file of its own: the objects need two names."""
    name = module.name.rpartition(".")[2]
    code = Path(module.sources[0])
    copy = code.with_name(f"{folder}_{name}.c")
    copy.write_text(f'#include "{code.name}"\n', encoding="utf-8")
    made = extension(f"{folder}.{name}", copy)
    made.depends.append(code.as_posix())
    return made


def shared_code() -> Path:
    """The file of Cython's own code for arrays."""
    path = C_FILES / "_shared.c"
    path.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "cython", "-3", f"--generate-shared={path}"]
    subprocess.run([*command, "--module-name", SHARED], check=True)
    return path


class BuildKernels(build_ext):
    """Compiles with the flags on which proofs and speed rest."""

    def finalize_options(self) -> None:
        """Translate kernels only when they are compiled: a source archive needs no C."""
        commands = set(self.distribution.commands)
        if commands & BUILDS and not hasattr(self.distribution, "translated"):
            self.distribution.translated = True
            beside_sources = bool(self.inplace or "editable_wheel" in commands)
            if CHECKED and not beside_sources:
                raise SystemExit("DPSU_KERNELS=checked is for builds beside the sources; unset it")
            if beside_sources:
                remove_leftovers()
            self.distribution.ext_modules = modules(only_changed=beside_sources)
        super().finalize_options()
        # `modules` has decided, and looks at more than setuptools does.
        self.force = True

    def build_extensions(self) -> None:
        """Choose the flags that this compiler takes."""
        if self.compiler.compiler_type == "msvc":
            # Precise: a product and a sum are rounded apart.
            flags, newer = ["/O2", "/fp:precise"], []
        else:
            # Operations are rounded one by one, whatever CFLAGS say: proofs count roundings.
            needed = ("-fno-fast-math", "-ffp-contract=off")
            flags = self.known(
                "-O1" if CHECKED else "-O3",
                *needed,
                # Sums of signed integers wrap around, as in NumPy.
                "-fwrapv",
                "-fno-math-errno",
                "-fno-trapping-math",
                # Without it gcc gives up where SHA-256 reads and writes eight rows of one array.
                "--param=vect-max-version-for-alias-checks=100",
                # Names for debuggers would double the size, and C from Cython has warnings.
                "-g0",
                "-w",
            )
            if not set(needed) <= set(flags):
                raise SystemExit(f"dpsu needs a C compiler that works and knows {' '.join(needed)}")
            # zig spells it its own way.
            newer = self.known("-march=x86-64-v3", "-march=x86_64_v3")[:1]
        for module in self.extensions:
            module.extra_compile_args = [*flags, *(newer if ".x86_64_v3." in module.name else [])]
            if module.name == SHARED and "-O3" in flags:
                # No loop is in it, and it would take as long as all others.
                module.extra_compile_args.append("-O1")
        super().build_extensions()

    def known(self, *flags: str) -> list[str]:
        """Those of these flags that the compiler takes."""
        with tempfile.TemporaryDirectory() as folder:
            source, made = Path(folder, "nothing.c"), Path(folder, "nothing.o")
            source.write_text("int nothing(void);\nint nothing(void) { return 0; }\n", "utf-8")
            command = [*self.compiler.compiler_so, "-c", str(source), "-o", str(made)]

            def takes(*more: str) -> bool:
                done = subprocess.run([*command, *more], capture_output=True, check=False)
                return done.returncode == 0

            if shutil.which(command[0]) is None:
                return []
            # Some compilers only warn of flags that they do not know; some CFLAGS warn anyway.
            strict = ["-Werror"] if takes("-Werror") else []
            return [flag for flag in flags if takes(*strict, flag)]

    def copy_extensions_to_source(self) -> None:
        """Put the modules beside their sources, for an editable installation."""
        for module in self.extensions:
            folder = Path("src", *module.name.split(".")[:-1])
            folder.mkdir(exist_ok=True)
        super().copy_extensions_to_source()


class BuildPython(build_py):
    """Adds the pages that `dpsu` prints; an editable installation finds them in docs."""

    def run(self) -> None:
        """Copy them after all else."""
        if self.editable_mode:
            super().run()
            return
        # What earlier builds left there would become a part of a wheel.
        shutil.rmtree(Path(self.build_lib, "dpsu"), ignore_errors=True)
        super().run()
        for pages in PAGES:
            folder = Path(self.build_lib, "dpsu", pages)
            folder.mkdir(parents=True, exist_ok=True)
            for page in Path("docs", pages).glob("*.md"):
                shutil.copyfile(page, folder / page.name)


# Where processes do not fork, those that translate kernels read this file, too.
if __name__ != "__mp_main__":
    setup(
        ext_modules=[extension(path.stem, path) for path in sources()],
        cmdclass={"build_ext": BuildKernels, "build_py": BuildPython},
        options={
            "build_ext": {"parallel": os.cpu_count()},
            "bdist_wheel": {"py_limited_api": "cp311"} if STABLE_ABI else {},
        },
    )
