from django.db import models


class Order(models.Model):
    """A row in the schema of a tenant."""

    number = models.IntegerField()

    def __str__(self):
        return str(self.number)
