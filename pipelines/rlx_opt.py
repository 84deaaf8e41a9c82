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
from functools import partial
from io import StringIO
from itertools import zip_longest
from pathlib import Path
from typing import IO, NoReturn

from xdsl.dialects.builtin import ModuleOp

from rlx_dialect.pipelines.collector import paused_collector
from rlx_dialect.pipelines.diagnostics import OptError, message, parse_message
from rlx_dialect.pipelines.fusion_arguments import (
    FusionRequest,
    add_fusion_arguments,
    options_table,
    situation_for,
    spelled_out,
)
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
LEGALIZE = "rlx-legalize"
LOWERINGS = (LEGALIZE, "rlx-lower-to-")
"""Fusion is over before the first pass whose name begins so."""

EXPECTED = (DiagnosticException, ParseError, ValueError, OSError)
"""What passes raise for input that they do not take; anything else is a mistake of ours."""


class RlxOpt(xDSLOptMain):
    """The driver. The constructor and :meth:`run` raise OptError for everything that is wrong with their input."""

    version_format = "rlx-opt, on xdsl {xdsl_version}"
    output: _KeptOutput | None = None
    """What goes to the output file, which is written only when all went well."""

    def __init__(self, description: str = "RLX optimizer driver", args: Sequence[str] | None = None):
        super().__init__(description, spelled_out(args))

    def register_all_arguments(self, arg_parser: argparse.ArgumentParser) -> None:
        super().register_all_arguments(arg_parser)
        add_fusion_arguments(arg_parser)

    # The pipeline.

    def setup_pipeline(self) -> None:
        if self.args.fold_weights and (self.args.output_file is None or self.get_input_name() == STDIN):
            raise OptError("error: --fold-weights reads a side file and writes one: it needs an input file and -o")
        self.request = FusionRequest.of(self.args)
        self.pipeline = PassPipeline(tuple(self._parse_passes(self.request.text)))

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
        if not self.args.check_rewrites:
            with paused_collector():
                self._run_passes(prog)
            return
        from rlx_dialect.pipelines.check_rewrites import checking_rewrites

        with checking_rewrites(self.get_input_name()) as checks:
            self._run_passes(prog)
        print(checks, file=sys.stderr)

    def _run_passes(self, prog: ModuleOp) -> None:
        passes = self.pipeline.passes
        recorder = self.request.recorder(prog)
        to_fold: bool = self.args.fold_weights
        for current, following in zip_longest(passes, passes[1:]):
            start = time.perf_counter()
            if recorder is not None and current.name.startswith(LOWERINGS):
                self.request.conclude(recorder, self.get_input_name())
                recorder = None
            if to_fold and current.name.startswith(LOWERINGS):
                self._fold_weights(prog)
                to_fold = False
            try:
                if current.name == LEGALIZE:
                    self.request.legalize(current, prog)
                elif recorder is None:
                    current.apply(self.ctx, prog)
                else:
                    recorder.run(current, self.ctx)
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
        if recorder is not None:
            self.request.conclude(recorder, self.get_input_name())
        if to_fold:
            self._fold_weights(prog)

    def _fold_weights(self, prog: ModuleOp) -> None:
        from rlx_dialect.fold_parameters import fold_weights_of_file

        try:
            fold_weights_of_file(prog, Path(self.args.input_file), Path(self.args.output_file))
        except ValueError as error:
            raise OptError(message(self.get_input_name(), str(error))) from error
        self._verify(prog, "after --fold-weights: ")

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
        if self.args.compare_targets:
            from rlx_dialect.pipelines.compare import compare_targets

            return compare_targets(prog, self.ctx, partial(situation_for, self.args)) + "\n"
        if self.args.output_file is not None and self.get_input_name() != STDIN and not self.args.fold_weights:
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
        elif self.args.list_fusions:
            from rlx_dialect.pipelines.compare import fusions_table

            print(fusions_table())
        elif self.args.print_options:
            assert self.request.situation is not None
            print(options_table(self.request.situation))
        elif self.args.print_pipeline:
            print(self.request.text)
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


def _list_pipelines() -> str:
    """Every named pipeline under the process environment."""
    from rlx_dialect.pipelines.environment import Environment
    from rlx_dialect.pipelines.named import PIPELINE_NAMES, named_pipeline, pipeline_target
    from rlx_dialect.pipelines.options import FusionOptions
    from rlx_dialect.pipelines.tables import table

    environment = Environment.current()
    texts = [named_pipeline(n, FusionOptions.resolve(pipeline_target(n), environment)) for n in PIPELINE_NAMES]
    return table([["pipeline", "passes"], *map(list, zip(PIPELINE_NAMES, texts, strict=True))])


def main(args: Sequence[str] | None = None) -> None:
    """The command line: a message on standard error and exit status 1 for what is wrong with the input."""
    try:
        RlxOpt(args=args).run()
    except OptError as error:
        if error.internal:
            traceback.print_exception(error.__cause__)
        print(error, file=sys.stderr)
        sys.exit(1)
