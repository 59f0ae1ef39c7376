"""Every test drives the running mesh named by KVMESH_URL with an official client, as its users write it."""
import os

import pytest
from openai import AsyncOpenAI, OpenAI


@pytest.fixture(scope="session")
def url():
    base = os.environ.get("KVMESH_URL")
    assert base, "KVMESH_URL must name a running mesh, such as http://127.0.0.1:8080"
    return base


@pytest.fixture()
def client(url):
    with OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0, timeout=60) as made:
        yield made


@pytest.fixture()
def async_client(url):
    return AsyncOpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0, timeout=60)


@pytest.fixture()
def model(client):
    return client.models.list().data[0].id
