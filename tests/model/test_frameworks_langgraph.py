"""LangGraph with langchain-anthropic and langchain-openai, unchanged: graphs answer as they do without Nightdesk."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from anthropic import Anthropic, AsyncAnthropic
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from pydantic import BaseModel

from nightdesk.work import Desk
from tests.model.asking import AskingHouse, answers_alike
from tests.support.hand import Body

Make = Callable[[Desk], Any]


class Town(BaseModel):
    """A town and its people."""

    name: str
    people: int


async def weather(town: str) -> str:
    """The weather in a town."""
    return f"sunny in {town}"


def _claude(desk: Desk) -> Any:
    """The class has no parameter for an HTTP client: it keeps the SDK's in these properties."""
    chat = ChatAnthropic(model_name="claude-haiku-4-5", max_tokens_to_sample=500, timeout=None, stop=None)
    chat.__dict__["_async_client"] = AsyncAnthropic(http_client=desk.http_client())
    chat.__dict__["_client"] = Anthropic(http_client=desk.http_client(sync=True))
    return chat


def _gpt(desk: Desk) -> Any:
    clients: Any = {"http_async_client": desk.http_client(), "http_client": desk.http_client(sync=True)}
    return ChatOpenAI(model="gpt-5-mini", stream_usage=True, **clients)


def _gpt_responses(desk: Desk) -> Any:
    clients: Any = {"http_async_client": desk.http_client(), "http_client": desk.http_client(sync=True)}
    return ChatOpenAI(model="gpt-5-mini", use_responses_api=True, **clients)


_MODELS = [_claude, _gpt, _gpt_responses]


def _agent(model: Any, tools: list[Any]) -> Any:
    """A graph as LangGraph's documentation builds an agent: the model, its tools, and back."""

    async def ask(state: MessagesState) -> Any:
        return {"messages": [await model.bind_tools(tools).ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("ask", ask)
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "ask")
    graph.add_conditional_edges("ask", tools_condition)
    graph.add_edge("tools", "ask")
    return graph.compile()


def _said(text: str) -> Any:
    return {"messages": [{"role": "user", "content": text}]}


def _shown(message: Any) -> Any:
    """Without ids, which no two answers have in common."""
    calls = [(call["name"], call["args"]) for call in getattr(message, "tool_calls", ())]
    tokens = message.usage_metadata["output_tokens"] if isinstance(message, AIMessage) and message.usage_metadata else 0
    return [message.type, message.text, calls, tokens]


def _invoked(make: Make) -> Body:
    async def body(order: Any, desk: Desk) -> Any:
        agent = _agent(make(desk), [tool(desk.tool(weather))])
        end = await agent.ainvoke(_said('The weather in Lund and Malmö? sim:{"turns":2,"parallel":2}'))
        return [_shown(message) for message in end["messages"]]

    return body


def _streamed(make: Make) -> Body:
    """In the mode in which LangGraph turns each question of a node into a stream."""

    async def body(order: Any, desk: Desk) -> Any:
        agent = _agent(make(desk), [tool(desk.tool(weather))])
        words, nodes = "", set()
        async for chunk, about in agent.astream(_said("The weather in Lund?"), stream_mode="messages"):
            nodes.add(about["langgraph_node"])
            words += chunk.text if isinstance(chunk, AIMessageChunk) else ""
        return {"words": words, "nodes": sorted(nodes)}

    return body


def _structured(make: Make) -> Body:
    async def body(order: Any, desk: Desk) -> Any:
        return await make(desk).with_structured_output(Town).ainvoke("name: Lund, people: 94000")

    return body


async def _one_after_the_other(order: Any, desk: Desk) -> Any:
    """A graph of two providers, run from a plain function in a thread, with its sync clients."""

    def draft(state: MessagesState) -> Any:
        return {"messages": [_claude(desk).invoke(state["messages"])]}

    def review(state: MessagesState) -> Any:
        return {"messages": [_gpt(desk).invoke(f"Review this: {state['messages'][-1].text}")]}

    graph = StateGraph(MessagesState)
    graph.add_node("draft", draft)
    graph.add_node("review", review)
    graph.add_edge(START, "draft")
    graph.add_edge("draft", "review")
    graph.add_edge("review", END)
    end: Any = await asyncio.to_thread(graph.compile().invoke, _said("Write about Lund"))
    return [_shown(message) for message in end["messages"]]


@pytest.mark.parametrize("make", _MODELS)
def test_an_agent_with_parallel_tools(asking: AskingHouse, make: Make) -> None:
    calls = answers_alike(asking, _invoked(make))
    assert [(call.position, call.tools) for call in calls] == [(number, ["weather"]) for number in (1, 2, 3)]


@pytest.mark.parametrize("make", _MODELS)
def test_the_stream_of_messages(asking: AskingHouse, make: Make) -> None:
    calls = answers_alike(asking, _streamed(make))
    assert [call.request.get("stream") for call in calls] == [None, None]


@pytest.mark.parametrize("make", _MODELS)
def test_structured_output(asking: AskingHouse, make: Make) -> None:
    assert len(answers_alike(asking, _structured(make))) == 1


def test_a_graph_of_two_providers_in_a_thread(asking: AskingHouse) -> None:
    calls = answers_alike(asking, _one_after_the_other)
    assert [call.provider for call in calls] == ["anthropic", "openai"]
