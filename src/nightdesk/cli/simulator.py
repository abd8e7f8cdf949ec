"""`simulator`: the providers as a local server, to try everything without an account and without money."""

from typing import Annotated

import typer

from nightdesk.cli.terminal import note, say


def simulator(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8787,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    latency: Annotated[float, typer.Option(min=0, max=3600, help="Seconds until a live request is answered.")] = 0.5,
    batch_seconds: Annotated[float, typer.Option(min=0, max=86400, help="How long a batch takes.")] = 10.0,
    requests_per_second: Annotated[
        float | None, typer.Option(min=0.001, help="Live requests beyond this are answered with 429.")
    ] = None,
) -> None:
    """Serve simulated Anthropic, OpenAI and Gemini APIs until it is stopped."""
    from nightdesk.model.simulator import Behaviour, Simulator, environment
    from nightdesk.model.simulator.serving import address, listen, serve

    behaviour = Behaviour(latency=latency, requests_per_second=requests_per_second, batch_seconds=batch_seconds)
    listener = listen(host, port)

    def announce() -> None:
        for name, value in environment(address(listener)).items():
            say(f"export {name}={value}")
        note("The simulator is running. Its bill is at /meter, its settings are at /control. Ctrl-C stops it.")

    serve(Simulator(behaviour), listener, announce)
