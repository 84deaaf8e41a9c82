"""``rlx-opt``: xDSL's optimizer driver with the named pipelines of RLX, source locations and short messages.

It takes everything that ``xdsl-opt`` takes. In a program: ``RlxOpt(args=["--pipeline=cpu", "in.mlir"]).run()``.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from io import StringIO
from itertools import zip_longest
from pathlib import Path
from typing import IO, NoReturn

from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.pipelines.diagnostics import OptError, message, parse_message
from rlx_dialect.pipelines.source import parse_located, verify_module
from rlx_dialect.xdsl_compat import (
    ArgSpecParseError,
    DiagnosticException,
    ModulePass,
    ParseError,
    PassPipeline,
    ShrinkException,
    parse_pipeline,
    print_module,
    xDSLOptMain,
)

STDIN = "stdin"

EXPECTED = (DiagnosticException, ParseError, ValueError, OSError)
"""What passes raise for input that they do not take; anything else is a mistake of ours."""


class RlxOpt(xDSLOptMain):
    """The driver. The constructor and :meth:`run` raise OptError for everything that is wrong with their input."""

    version_format = "rlx-opt, on xdsl {xdsl_version}"
    output: _KeptOutput | None = None
    """What goes to the output file, which is written only when all went well."""

    def __init__(self, description: str = "RLX optimizer driver", args: Sequence[str] | None = None):
        super().__init__(description, args)

    def register_all_arguments(self, arg_parser: argparse.ArgumentParser) -> None:
        super().register_all_arguments(arg_parser)
        group = arg_parser.add_argument_group("RLX")
        group.add_argument("--pipeline", metavar="NAME", help="run a named pipeline: a target, or <target>-fuse")
        group.add_argument("--print-pipeline", action="store_true", help="print the pass pipeline as text for -p; stop")
        group.add_argument("--list-pipelines", action="store_true", help="list the named pipelines; stop")
        group.add_argument("--verify-each", action="store_true", help="verify after each pass, not only after the last")

    # The pipeline.

    def setup_pipeline(self) -> None:
        text: str = self.args.passes
        if self.args.pipeline is not None:
            if text:
                raise OptError("error: --pipeline and -p exclude each other")
            text = _named(self.args.pipeline)
        self.pipeline = PassPipeline(tuple(self._parse_passes(text)))
        self.pipeline_text = text

    def _parse_passes(self, text: str) -> Iterator[ModulePass]:
        try:
            specs = list(parse_pipeline(text))
        except ArgSpecParseError as error:
            raise OptError(f"error: {str(error).rstrip()}") from error
        for spec in specs:
            if spec.name not in self.available_passes:
                similar = ", ".join(get_close_matches(spec.name, self.available_passes)) or "none"
                raise OptError(f"error: unknown pass '{spec.name}' (similar: {similar})")
            try:
                yield self.available_passes[spec.name]().from_pass_spec(spec)
            except ValueError as error:
                raise OptError(f"error: {spec.name}: {error}") from error

    def apply_passes(self, prog: ModuleOp) -> None:
        """Verify the input, run the passes, verify the result."""
        self._verify(prog, "")
        passes = self.pipeline.passes
        for current, following in zip_longest(passes, passes[1:]):
            start = time.perf_counter()
            try:
                current.apply(self.ctx, prog)
            except ShrinkException:
                raise
            except Exception as error:
                self._pass_failed(current, error)
            if self.args.time_passes:
                print(f"Pass {current.name} took {time.perf_counter() - start} seconds", file=sys.stderr)
            if following is None or self.args.verify_each:
                several = len(passes) > 1 and not self.args.verify_each
                self._verify(
                    prog, "after the last pass (--verify-each finds which): " if several else f"after {current.name}: "
                )
            if following is not None and self.args.print_between_passes:
                print(f"IR after {current.name}:\n{print_module(prog)}\n\n")

    def _verify(self, prog: ModuleOp, when: str) -> None:
        if self.args.disable_verify:
            return
        verify_module(prog, self.get_input_name(), when)

    def _pass_failed(self, failed: ModulePass, error: Exception) -> NoReturn:
        if isinstance(error, OptError):
            raise error
        text = str(error) if isinstance(error, EXPECTED) else f"{type(error).__name__}: {error}, a mistake in the pass"
        failure = OptError(message(self.get_input_name(), f"{failed.name}: {text}"))
        failure.internal = not isinstance(error, EXPECTED)
        raise failure from error

    # Input and output.

    def get_input_name(self) -> str:
        return self.args.input_file if self.args.input_file not in (None, "-") else STDIN

    def get_input_stream(self) -> tuple[IO[bytes], str]:
        if self.get_input_name() == STDIN:
            return sys.stdin.buffer, "mlir"
        try:
            return super().get_input_stream()
        except OSError as error:
            raise OptError(message(self.args.input_file, error.strerror or str(error))) from error

    def prepare_input(self) -> tuple[list[tuple[IO[bytes], int]], str]:
        try:
            return super().prepare_input()
        except ValueError as error:
            known = ", ".join(f".{name}" for name in sorted(self.available_frontends))
            raise OptError(message(self.get_input_name(), f"{error}; known are {known}")) from error

    def parse_chunk(self, chunk: IO[bytes], file_extension: str, start_offset: int = 0) -> ModuleOp | None:
        if (self.args.frontend or file_extension) != "mlir":
            try:
                return super().parse_chunk(chunk, file_extension, start_offset)
            except ParseError:
                raise
            except EXPECTED as error:
                raise OptError(message(self.get_input_name(), str(error))) from error
        try:
            text = chunk.read().decode()
        except UnicodeDecodeError as error:
            raise OptError(message(self.get_input_name(), f"no text: {error}")) from error
        return parse_located(
            self.ctx,
            text,
            self.get_input_name(),
            line_offset=start_offset,
            implicit_module=not self.args.no_implicit_module,
        )

    def output_resulting_program(self, prog: ModuleOp) -> str:
        if self.args.output_file is not None and self.get_input_name() != STDIN:
            from rlx_dialect.pipelines.side_file import follow_weights

            follow_weights(prog, Path(self.args.input_file), Path(self.args.output_file))
        try:
            return super().output_resulting_program(prog)
        except (DiagnosticException, ValueError, RuntimeError) as error:
            raise OptError(message(self.get_input_name(), f"{self.args.target}: {error}")) from error

    def prepare_output(self) -> IO[str]:
        if self.args.output_file is None:
            return sys.stdout
        self.output = _KeptOutput()
        return self.output

    def run(self) -> None:
        """Do what the arguments say; raises OptError."""
        if self.args.list_pipelines:
            print(_list_pipelines())
        elif self.args.print_pipeline:
            print(self.pipeline_text)
        else:
            self._run()

    def _run(self) -> None:
        try:
            super().run()
        except OptError:
            raise
        except ParseError as error:
            raise OptError(parse_message(error)) from error
        except DiagnosticException as error:
            raise OptError(message(self.get_input_name(), str(error))) from error
        except RecursionError as error:
            raise OptError(message(self.get_input_name(), "nested too deeply")) from error
        if self.output is not None:
            try:
                Path(self.args.output_file).write_text(self.output.text)
            except OSError as error:
                raise OptError(message(self.args.output_file, error.strerror or str(error))) from error


class _KeptOutput(StringIO):
    """Text that is still there after the driver has closed the stream."""

    text = ""

    def close(self) -> None:
        self.text = self.getvalue()
        super().close()


def _named(name: str) -> str:
    """The text of a named pipeline under the process environment."""
    from rlx_dialect.pipelines.environment import Environment
    from rlx_dialect.pipelines.named import named_pipeline, pipeline_target
    from rlx_dialect.pipelines.options import FusionOptions

    try:
        return named_pipeline(name, FusionOptions.resolve(pipeline_target(name), Environment.current()))
    except ValueError as error:
        raise OptError(f"error: {error}") from error


def _list_pipelines() -> str:
    from rlx_dialect.pipelines.named import PIPELINE_NAMES
    from rlx_dialect.pipelines.tables import table

    return table([["pipeline", "passes"], *([name, _named(name)] for name in PIPELINE_NAMES)])


def main(args: Sequence[str] | None = None) -> None:
    """The command line: a message on standard error and exit status 1 for what is wrong with the input."""
    try:
        RlxOpt(args=args).run()
    except OptError as error:
        if error.internal:
            traceback.print_exception(error.__cause__)
        print(error, file=sys.stderr)
        sys.exit(1)
